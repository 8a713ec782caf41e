/* Uses libweir_torch.so as a framework does: loads it by its path and looks up two functions. The third function is one
 * of weir's own. */
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
