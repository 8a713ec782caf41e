/* load.c: a program that uses weir::cuda on a machine with or without a CUDA driver.   test_cuda_load WORDS
 *
 * Without a driver, weir_cuda_device_create must refuse with a sentence that contains WORDS; with WORDS "" it must make
 * a device. The test is skipped if it expects a refusal and finds a driver.
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
