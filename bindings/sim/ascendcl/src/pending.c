/* pending.c: what the files that are still being written will define. */
#include "runtime.h"
void acl__error_note(aclError code, const char *text) { (void)code; (void)text; }
void acl__exception(acl__stream *stream, aclError error) { (void)stream; (void)error; }
bool acl__is_pinned(const void *pointer, uint64_t size) { (void)pointer; (void)size; return false; }
bool acl__soma_free_now(void *pointer, aclError *error) { (void)pointer; (void)error; return false; }
void acl__soma_synced(acl__stream *stream) { (void)stream; }
void acl__soma_recorded(const void *event, acl__stream *stream) { (void)event; (void)stream; }
void acl__soma_waited(acl__stream *stream, const void *event) { (void)event; (void)stream; }
void acl__soma_reset(int32_t device) { (void)device; }
void acl__virtual_reset(int32_t device) { (void)device; }
void acl__callback_stream_ends(acl__stream *stream) { (void)stream; }
void acl__op_stream_ends(aclrtStream handle) { (void)handle; }
