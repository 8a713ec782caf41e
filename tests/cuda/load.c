/* load.c: the driver as a program meets it that was linked without one.   test_cuda_load WORDS
 *
 * WORDS are in the sentence of a refusal; "": a device is made. Skipped where the wanted driver is absent and a real
 * one is there.
 */
#include <stdio.h>
#include <string.h>
#include <weir/cuda.h>

int main(int argc, char **argv)
{
    const char *words = argc > 1 ? argv[1] : "";
    weir_device *device = NULL;
    const weir_status status = weir_cuda_device_create(NULL, &device);
    const char *sentence = weir_last_error();
    if (status == WEIR_OK) {
        (void)!weir_device_destroy(device);
        if (words[0] != '\0') {
            (void)puts("skipped: there is a CUDA driver");
            return 77;
        }
        return 0;
    }
    (void)printf("%s\n", sentence);
    return status == WEIR_ERR_UNSUPPORTED && words[0] != '\0' && strstr(sentence, words) != NULL &&
                   strncmp(sentence, "weir_cuda_device_create: ", 25) == 0
               ? 0
               : 1;
}
