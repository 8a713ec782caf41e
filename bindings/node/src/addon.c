/* addon.c: weir.node, for the things that JavaScript cannot do itself: replace this process by another program, and ask
 * the malloc of this process for its figures.
 *
 * Node's interface for addons is a stable ABI of C functions, so the few that are used are declared here and no header
 * of Node is needed. Every number that crosses is a double: exact below 2^53.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env env, napi_callback_info info);

int napi_create_function(napi_env env, const char *name, size_t length, napi_callback call, void *data,
                         napi_value *value);
int napi_set_named_property(napi_env env, napi_value object, const char *name, napi_value value);
int napi_create_object(napi_env env, napi_value *value);
int napi_create_double(napi_env env, double number, napi_value *value);
int napi_get_boolean(napi_env env, bool truth, napi_value *value);
int napi_get_cb_info(napi_env env, napi_callback_info info, size_t *count, napi_value *arguments, napi_value *self,
                     void **data);
int napi_get_array_length(napi_env env, napi_value array, uint32_t *length);
int napi_get_element(napi_env env, napi_value array, uint32_t index, napi_value *value);
int napi_get_value_string_utf8(napi_env env, napi_value value, char *text, size_t size, size_t *length);
int napi_throw_error(napi_env env, const char *code, const char *text);

__attribute__((visibility("default"))) napi_value napi_register_module_v1(napi_env env, napi_value exports);

static void set_number(napi_env env, napi_value object, const char *name, size_t number)
{
    napi_value value;
    if (napi_create_double(env, (double)number, &value) == 0) {
        (void)napi_set_named_property(env, object, name, value);
    }
}

/* { liveBytes, heldBytes }: the figures of the malloc that serves this process. */
static napi_value stats(napi_env env, napi_callback_info info)
{
    (void)info;
    const struct mallinfo2 found = mallinfo2();
    napi_value object = NULL;
    if (napi_create_object(env, &object) == 0) {
        set_number(env, object, "liveBytes", found.uordblks + found.hblkhd);
        set_number(env, object, "heldBytes", found.arena + found.hblkhd);
    }
    return object;
}

/* Whether weir's library has the place of malloc in this process. */
static napi_value is_enabled(napi_env env, napi_callback_info info)
{
    (void)info;
    Dl_info from;
    void *const found = dlsym(RTLD_DEFAULT, "mallinfo2");
    const bool is_weir = found != NULL && dladdr(found, &from) != 0 && from.dli_fname != NULL &&
                         strstr(from.dli_fname, "libweir_preload") != NULL;
    napi_value value = NULL;
    (void)napi_get_boolean(env, is_weir, &value);
    return value;
}

/* Gives idle memory back to the system; true if some went back. */
static napi_value trim(napi_env env, napi_callback_info info)
{
    (void)info;
    napi_value value = NULL;
    (void)napi_get_boolean(env, malloc_trim(0) != 0, &value);
    return value;
}

/* A copy of an element of an array of strings; NULL: no string, or no memory. */
static char *copy_string(napi_env env, napi_value array, uint32_t index)
{
    napi_value value;
    size_t length = 0;
    if (napi_get_element(env, array, index, &value) != 0 ||
        napi_get_value_string_utf8(env, value, NULL, 0, &length) != 0) {
        return NULL;
    }
    char *const text = malloc(length + 1);
    if (text != NULL && napi_get_value_string_utf8(env, value, text, length + 1, &length) != 0) {
        text[0] = '\0';
    }
    return text;
}

/* Node closes its standard streams at exec, and ignores two signals: the next program gets all as they were. */
static void undo_start_of_node(void)
{
    for (int stream = 0; stream <= 2; stream++) {
        const int flags = fcntl(stream, F_GETFD);
        if (flags >= 0) {
            (void)fcntl(stream, F_SETFD, flags & ~FD_CLOEXEC);
        }
    }
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
}

/* exec(words): replaces this process by the program words[0] with the arguments words. Returns only by an exception. */
static napi_value replace(napi_env env, napi_callback_info info)
{
    napi_value words;
    size_t count = 1;
    uint32_t length = 0;
    char **arguments = NULL;
    if (napi_get_cb_info(env, info, &count, &words, NULL, NULL) == 0 && count == 1 &&
        napi_get_array_length(env, words, &length) == 0 && length > 0) {
        arguments = calloc((size_t)length + 1, sizeof(*arguments));
    }
    bool is_whole = arguments != NULL;
    for (uint32_t i = 0; is_whole && i < length; i++) {
        arguments[i] = copy_string(env, words, i);
        is_whole = arguments[i] != NULL;
    }
    const char *why = "weir.node: exec takes an array of strings";
    if (is_whole) {
        undo_start_of_node();
        (void)execv(arguments[0], arguments);
        why = strerror(errno);
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGXFSZ, SIG_IGN);
    }
    (void)napi_throw_error(env, NULL, why);
    for (uint32_t i = 0; arguments != NULL && i < length; i++) {
        free(arguments[i]);
    }
    free(arguments);
    return NULL;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports)
{
    static const struct {
        const char *name;
        napi_callback call;
    } functions[] = {{"stats", stats}, {"isEnabled", is_enabled}, {"trim", trim}, {"exec", replace}};
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        napi_value function;
        if (napi_create_function(env, functions[i].name, SIZE_MAX, functions[i].call, NULL, &function) == 0) {
            (void)napi_set_named_property(env, exports, functions[i].name, function);
        }
    }
    return exports;
}
