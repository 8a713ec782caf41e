/* bindings/ascend/acl/src/attachment_report.c: the figures of an attachment, as numbers and as sentences. */
#include "attachment.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void add(const weir_acl_attachment *one, weir_acl_attachment_info *sum)
{
    WEIR_ASSERT(one->workspace == NULL || one->state == ATTACHED);
    sum->requests += atomic_load(&one->requests);
    sum->failures += atomic_load(&one->failures);
    sum->refused_frees += atomic_load(&one->refused_frees);
    sum->streams += one->state == ATTACHED && !one->is_device;
    sum->workspace_bytes += one->workspace != NULL ? weir_block_capacity(one->workspace) : 0;
}

static void read_locked(const weir_acl_attachment *self, weir_acl_attachment_info *info)
{
    WEIR_ASSERT(weir__acl_is_locked());
    WEIR_ASSERT(weir__acl_is_sound(self));
    info->pool = atomic_load(&self->pool);
    info->stream = atomic_load(&self->stream);
    info->acl_stream = self->native;
    info->handle_reused = self->state == GONE && self->old_native == NULL;
    info->live_blocks = (uint64_t)weir__acl_live_locked(self);
    info->missed_streams = self->is_device ? self->missed : 0;
    add(self, info);
    for (const weir_acl_attachment *one = weir__acl_first_locked(); self->is_device && one != NULL; one = one->next) {
        if (one->device == self) {
            add(one, info);
        }
    }
}

weir_status weir_acl_attachment_get_info(weir_acl_attachment *self, weir_acl_attachment_info *info)
{
    static const char function[] = "weir_acl_attachment_get_info";
    if (self == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: attachment is NULL", function);
    }
    weir_acl_attachment_info now = WEIR_ACL_ATTACHMENT_INFO_INIT;
    weir__acl_lock();
    const bool is_one = weir__acl_is_attachment_locked(self);
    if (is_one) {
        read_locked(self, &now);
    }
    weir__acl_unlock();
    if (!is_one) {
        return weir__acl_no_attachment(function, self);
    }
    return weir_struct_report(info, &now, sizeof(now), "weir_acl_attachment_get_info: info");
}

/* --- sentences --- */

/* A text buffer as for snprintf: `text` may be cut off, `length` counts the whole text. */
struct page {
    char *text;
    size_t size;
    size_t length;
};

static void write(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write(struct page *page, const char *format, ...)
{
    const size_t at = page->length < page->size ? page->length : page->size;
    va_list arguments;
    va_start(arguments, format);
    const int added = vsnprintf(page->size > at ? page->text + at : NULL, page->size - at, format, arguments);
    va_end(arguments);
    page->length += added > 0 ? (size_t)added : 0;
}

static void write_subject(struct page *page, const weir_acl_attachment *self, const weir_acl_attachment_info *info)
{
    WEIR_ASSERT(weir__acl_is_locked());
    if (self->is_device) {
        write(page, "The pool is attached to ACL device %" PRId32 "; streams attached now: %" PRIu64 ".\n",
              self->device_id, info->streams);
    } else if (self->state == GONE) {
        write(page, "The stream of this attachment has ended.\n");
    } else {
        write(page, "The pool %s stream %p.\n", self->registers ? "is attached to" : "follows", info->acl_stream);
    }
    if (info->missed_streams > 0) {
        write(page,
              "New streams that could not be attached and use ACL's own memory: %" PRIu64
              "; the last one because: %s\n",
              info->missed_streams, self->missed_why);
    }
}

static void write_use(struct page *page, const weir_acl_attachment_info *info)
{
    if (info->requests != 0) {
        write(page, "Blocks that ACL asked the pool for: %" PRIu64 "; got none: %" PRIu64 "; holds now: %" PRIu64 ".\n",
              info->requests, info->failures, info->live_blocks);
        return;
    }
    write(page, "ACL has not asked the pool for a block. If operators have run since, nothing uses the pool:\n"
                "- the first operator ran before the pool was attached, and ACL keeps the allocator that a stream used "
                "first: attach before the first operator, or create a new stream; or\n"
                "- the operators name the default stream by NULL, for which ACL looks up no allocator: pass the handle "
                "of aclrtCtxGetCurrentDefaultStream; or\n"
                "- they are operators of aclnn, which ask no allocator: pass them the memory of weir_acl_workspace.\n");
}

size_t weir_acl_attachment_explain(weir_acl_attachment *self, char *text, size_t size)
{
    struct page page = {.text = text, .size = text != NULL ? size : 0};
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    write(&page, "%s", "");
    weir__acl_lock();
    if (self != NULL && weir__acl_is_attachment_locked(self)) {
        read_locked(self, &info);
        write_subject(&page, self, &info);
        if (self->registers || self->is_device) {
            write_use(&page, &info);
        }
        if (info.workspace_bytes > 0) {
            write(&page, "Workspaces hold %" PRIu64 " bytes.\n", info.workspace_bytes);
        }
    }
    weir__acl_unlock();
    return page.length;
}
