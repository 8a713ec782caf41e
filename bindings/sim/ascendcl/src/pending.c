/* pending.c: what the files that are still being written will define. */
#include "runtime.h"
void acl__error_note(aclError code, const char *text) { (void)code; (void)text; }
void acl__exception(acl__stream *stream, aclError error) { (void)stream; (void)error; }
void acl__callback_stream_ends(acl__stream *stream) { (void)stream; }
void acl__op_stream_ends(aclrtStream handle) { (void)handle; }
