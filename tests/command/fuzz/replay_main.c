/* replay_main.c: runs a fuzz target over files, without libFuzzer, so that every compiler and the ordinary tests replay
 * the inputs that fuzzing found. Each argument is a file or a folder. The files of a folder run in the order of their
 * names. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    uint8_t *bytes = NULL;
    size_t size = 0;
    size_t got = 0;
    do {
        uint8_t *larger = realloc(bytes, size + 65536);
        if (larger == NULL) {
            break;
        }
        bytes = larger;
        got = fread(bytes + size, 1, 65536, file);
        size += got;
    } while (got == 65536);
    int failed = ferror(file) != 0 || bytes == NULL;
    fclose(file);
    /* An allocation of exactly this size, so that a sanitizer sees a read beyond it. */
    uint8_t *exact = failed ? NULL : malloc(size > 0 ? size : 1);
    if (exact != NULL) {
        memcpy(exact, bytes, size);
        (void)LLVMFuzzerTestOneInput(exact, size);
    }
    free(exact);
    free(bytes);
    return exact == NULL;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int run_folder(const char *path, unsigned *count)
{
    struct dirent **entries = NULL;
    int found = scandir(path, &entries, visible, alphasort);
    if (found < 0) {
        perror(path);
        return 1;
    }
    int failures = 0;
    for (int i = 0; i < found; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        free(entries[i]);
        failures += run_file(name);
        (*count)++;
    }
    free(entries);
    return failures;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    int failures = 0;
    for (int i = 1; i < argc; i++) {
        struct stat facts;
        if (stat(argv[i], &facts) != 0) {
            perror(argv[i]);
            failures++;
        } else if (S_ISDIR(facts.st_mode)) {
            failures += run_folder(argv[i], &count);
        } else {
            failures += run_file(argv[i]);
            count++;
        }
    }
    if (count == 0) {
        fprintf(stderr, "no input was found; usage: %s FILE|FOLDER...\n", argv[0]);
        return 1;
    }
    printf("%u inputs, %d failed\n", count, failures);
    return failures != 0;
}
