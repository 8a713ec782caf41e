/* weir_ge.hpp: a pool of weir as the ge::Allocator of an ACL stream, for the graph engine's RegisterExternalAllocator.
 *
 *     std::shared_ptr<ge::Allocator> allocator = weir::ge_allocator::create(pool, stream);
 *     session.RegisterExternalAllocator(stream, allocator);       before LoadGraph
 *     ... LoadGraph, RunGraphWithStreamAsync ...
 *     session.UnregisterExternalAllocator(stream);
 *     allocator.reset();
 *
 * The program that uses the graph engine compiles this file, in C++17, with CANN's ge/ge_allocator.h and weir/acl.h,
 * and links weir::acl. The pool follows the stream, so the same pool may serve several streams at once, each with an
 * allocator of its own, and ACL's operators on other streams. (ACL's operators and models on this stream need
 * weir_acl_attach: from_attachment shares that attachment.)
 *
 * Ownership: the engine owns the allocator as long as it is registered, and a block until it calls Free. Blocks must
 * not outlive the allocator: unload the graphs first. The destructor waits for the stream and lets the pool go; if the
 * engine still holds blocks then, the pool stays attached, and weir_pool_destroy returns WEIR_ERR_BUSY. The stream may
 * be destroyed first.
 *
 * Errors: create returns an empty pointer and Malloc nullptr, as the engine expects; weir_acl_error has the reason of
 * create, weir_pool_get_oom that of Malloc. No function throws.
 *
 * Threads: any thread may call any function, also two threads at once.
 */
#ifndef WEIR_GE_HPP
#define WEIR_GE_HPP

#include <cstddef>
#include <memory>
#include <new>

#include <ge/ge_allocator.h>
#include <weir/acl.h>

namespace weir
{

class ge_allocator final : public ge::Allocator
{
  public:
    /* Makes the pool follow the stream (weir_acl_follow). acl_stream must not be NULL. Returns an empty pointer on
     * failure. */
    static std::shared_ptr<ge::Allocator> create(weir_pool *pool, void *acl_stream)
    {
        weir_acl_attachment *attachment = nullptr;
        if (weir_acl_follow(pool, acl_stream, &attachment) != WEIR_OK) {
            return nullptr;
        }
        std::shared_ptr<ge::Allocator> made = share(attachment, true);
        if (made == nullptr) {
            (void)!weir_acl_detach(attachment);
        }
        return made;
    }

    /* Makes an allocator over an attachment of the caller. The caller detaches it after the allocator has ended. */
    static std::shared_ptr<ge::Allocator> from_attachment(weir_acl_attachment *attachment)
    {
        return attachment != nullptr ? share(attachment, false) : nullptr;
    }

    ge_allocator(const ge_allocator &) = delete;
    ge_allocator &operator=(const ge_allocator &) = delete;

    ~ge_allocator() override
    {
        if (owns_) {
            (void)!weir_acl_detach(attachment_);
        }
    }

    ge::MemBlock *Malloc(size_t size) override
    {
        weir_block *memory = nullptr;
        if (weir_acl_attachment_alloc(attachment_, size, &memory) != WEIR_OK) {
            return nullptr;
        }
        block *made = new (std::nothrow) block(*this, memory, size);
        if (made == nullptr) {
            (void)!weir_acl_attachment_free(attachment_, memory);
        }
        return made;
    }

    void Free(ge::MemBlock *freed) override
    {
        block *ours = static_cast<block *>(freed);
        if (ours != nullptr) {
            (void)!weir_acl_attachment_free(attachment_, ours->memory);
            delete ours;
        }
    }

  private:
    struct block final : ge::MemBlock {
        block(ge::Allocator &allocator, weir_block *of, size_t size)
            : ge::MemBlock(allocator, reinterpret_cast<void *>(weir_block_address(of)), size), memory(of)
        {
        }
        weir_block *memory;
    };

    ge_allocator(weir_acl_attachment *attachment, bool owns) : attachment_(attachment), owns_(owns) {}

    static std::shared_ptr<ge::Allocator> share(weir_acl_attachment *attachment, bool owns)
    {
        try {
            return std::shared_ptr<ge::Allocator>(new ge_allocator(attachment, owns));
        } catch (const std::bad_alloc &) {
            return nullptr;
        }
    }

    weir_acl_attachment *attachment_;
    bool owns_;
};

} /* namespace weir */

#endif
