/* tests/pool/model/stdatomic.h: C11's atomics as variables of the model checker, for core/src/state/stream_lock.[ch].
 *
 * Only tests/pool/model/lock_model.cc includes it, in place of the compiler's header. At each access another thread may
 * run, and a load may return an older value where the C memory model allows it. relacy's names of memory orders add the
 * source location as a second argument.
 */
#ifndef WEIR_TESTS_MODEL_STDATOMIC_H
#define WEIR_TESTS_MODEL_STDATOMIC_H

#include <relacy/relacy.hpp>

/* relacy logs the value of an atomic, for which it needs pointers to non-const. */
struct atomic_name {
    rl::atomic<void *> name;
};

template <class T> struct modelled {
    typedef rl::atomic<T> type;
};
template <> struct modelled<const void *> {
    typedef atomic_name type;
};

#define _Atomic(type_) modelled<type_>::type

typedef rl::atomic<unsigned> atomic_uint;

struct atomic_flag {
    rl::atomic<unsigned> set;
};

/* The lock's flags of this type are set before any thread starts, so they are not modelled. */
struct atomic_bool {
    bool value;
};

using rl::mo_acquire;
using rl::mo_relaxed;
using rl::mo_release;
using rl::mo_seq_cst;

template <class T> T atomic_load_explicit(const rl::atomic<T> *a, rl::memory_order order, rl::debug_info_param where)
{
    return a->load(order, where);
}

template <class T, class V>
void atomic_store_explicit(rl::atomic<T> *a, V value, rl::memory_order order, rl::debug_info_param where)
{
    a->store(static_cast<T>(value), order, where);
}

template <class T, class V> void atomic_init(rl::atomic<T> *a, V value)
{
    a->store(static_cast<T>(value), rl::mo_relaxed, RL_INFO);
}

inline const void *atomic_load_explicit(const atomic_name *a, rl::memory_order order, rl::debug_info_param where)
{
    return a->name.load(order, where);
}

inline void atomic_init(atomic_name *a, const void *name)
{
    a->name.store(const_cast<void *>(name), rl::mo_relaxed, RL_INFO);
}

inline bool atomic_flag_test_and_set_explicit(atomic_flag *f, rl::memory_order order, rl::debug_info_param where)
{
    return f->set.rmw(rl::rmw_type_t<rl::rmw_type_swap>(), 1u, order, where) != 0;
}

inline void atomic_flag_clear_explicit(atomic_flag *f, rl::memory_order order, rl::debug_info_param where)
{
    f->set.store(0, order, where);
}

inline bool atomic_load(const atomic_bool *b)
{
    return b->value;
}

inline bool atomic_load_explicit(const atomic_bool *b, rl::memory_order, rl::debug_info_param)
{
    return b->value;
}

inline void atomic_store(atomic_bool *b, bool value)
{
    b->value = value;
}

using rl::atomic_signal_fence;

#endif
