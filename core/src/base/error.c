/* core/src/base/error.c: the error message of the calling thread's last refused call.
 *
 * Cost: nothing for a call that succeeds. A refusal formats one line into a buffer of its thread. It allocates no
 * memory and takes no lock, so a refusal can be explained under any lock and after memory has run out.
 */
#include <weir/base.h>

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char sentence[256];

const char *weir_last_error(void)
{
    return sentence;
}

weir_status weir_refuse(weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    return status;
}
