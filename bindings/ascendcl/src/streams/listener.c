/* listener.c: functions of the program that the runtime calls when the state of a stream or a device changes. The
 * program registers and removes each by a name. The runtime calls them without its lock, so they may register more
 * functions. */
#include "streams/streams.h"

#include <stdlib.h>
#include <string.h>

struct acl__listener {
    struct acl__listener *next;
    acl__listener_call call;
    char name[];
};

aclError acl__listener_set(acl__listener **list, const char *name, acl__listener_call call)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(name != NULL);
    while (*list != NULL && strcmp((*list)->name, name) != 0) {
        list = &(*list)->next;
    }
    if (call.function == NULL) { /* it is no error to remove a name that is not registered */
        acl__listener *gone = *list;
        if (gone != NULL) {
            *list = gone->next;
            free(gone);
        }
        return ACL_SUCCESS;
    }
    ACL_FAIL_IF(*list != NULL, ACL_ERROR_RT_PARAM_INVALID, "a function is registered as \"%s\" already", name);
    const size_t length = strlen(name) + 1;
    acl__listener *made = malloc(sizeof(*made) + length);
    ACL_FAIL_IF(made == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory to register \"%s\"", name);
    made->next = NULL;
    made->call = call;
    memcpy(made->name, name, length);
    *list = made;
    return ACL_SUCCESS;
}

size_t acl__listeners_copy(acl__listener *const *list, acl__listener_call copies[ACL__LISTENERS])
{
    size_t count = 0;
    acl__lock();
    for (const acl__listener *l = *list; l != NULL && count < ACL__LISTENERS; l = l->next) {
        copies[count++] = l->call;
    }
    acl__unlock();
    WEIR_ASSERT(count <= ACL__LISTENERS);
    return count;
}
