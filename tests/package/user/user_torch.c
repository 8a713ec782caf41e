/* Does what a framework does with libweir_torch.so: loads it by its path and finds two functions. The third function is
 * weir's own. */
#include <dlfcn.h>
#include <stdio.h>
#include <weir/torch.h>

int main(int count, char **arguments)
{
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", count == 2 ? dlerror() : "user_torch LIBRARY");
        return 1;
    }
    void *alloc = dlsym(library, "weir_torch_alloc");
    void *free = dlsym(library, "weir_torch_free");
    return alloc == NULL || free == NULL || dlsym(library, "weir_torch_get_stats") == NULL || dlclose(library) != 0;
}
