/* core/src/base/status.c: names and texts of results, and the library's version.
 *
 * All names and texts come from WEIR_STATUS_LIST, so a code cannot have a name without a text. The strings are
 * constant: every function here is thread-safe and never returns NULL, also for values that are not a status.
 */
#include <weir/base.h>

#define AS_TEXT(value) #value
#define VERSION_TEXT(major, minor, patch) AS_TEXT(major) "." AS_TEXT(minor) "." AS_TEXT(patch)

const char *weir_status_name(weir_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text)                                                                                 \
    case WEIR_##name:                                                                                                  \
        return "WEIR_" #name;
        WEIR_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "WEIR_UNKNOWN";
}

const char *weir_status_text(weir_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                                                 \
    case WEIR_##name:                                                                                                  \
        return text;
        WEIR_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

const char *weir_version(void)
{
    return VERSION_TEXT(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
}
