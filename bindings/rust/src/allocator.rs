//! The heap as a program's allocator.
use crate::error::{check, written, Result};
use crate::sys;
use std::alloc::{GlobalAlloc, Layout};
use std::mem::size_of;
use std::os::raw::{c_int, c_void};
use std::ptr::{copy_nonoverlapping, null, null_mut, write_bytes};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The heap of this process. It is made at the first request and lives as long as the process, so blocks of threads that
/// have ended and of `static`s stay valid. NULL: not made yet, or the process is a child of fork.
static HEAP: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static WATCHES_FORKS: AtomicBool = AtomicBool::new(false);

/// The alignment of every block of the heap.
const HEAP_ALIGN: usize = 16;

extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

/// In a child of fork: its own heap is made at the next request.
unsafe extern "C" fn forget_heap() {
    HEAP.store(null_mut(), Ordering::Relaxed);
}

#[inline]
fn heap() -> *mut c_void {
    let known = HEAP.load(Ordering::Acquire);
    if known.is_null() {
        make_heap()
    } else {
        known
    }
}

/// Makes the heap. weir's own tables come from the C library's malloc, so this needs no allocator of Rust. NULL: no memory.
#[cold]
fn make_heap() -> *mut c_void {
    let mut made = null_mut();
    unsafe {
        if !WATCHES_FORKS.swap(true, Ordering::AcqRel) {
            pthread_atfork(None, None, Some(forget_heap));
        }
        if sys::weir_heap_create(null(), &mut made) != 0 {
            return null_mut();
        }
        match HEAP.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(earlier) => {
                sys::weir_heap_destroy(made); // another thread was faster
                earlier
            }
        }
    }
}

/// A weir heap as the program's allocator. A process has one heap, whichever value of this type asks.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: weir::Allocator = weir::Allocator;
///
/// let words: Vec<String> = (0..1000).map(|i| i.to_string()).collect();
/// let stats = ALLOCATOR.stats().unwrap();
/// assert!(stats.live_blocks >= 1000);
/// assert!(stats.live_bytes <= stats.held_bytes);
/// drop(words);
/// ```
///
/// Without memory, or above the limit, a request returns a null pointer, which most of Rust's library turns into the end of
/// the process; `try_reserve` returns an error. A child of fork gets a heap of its own; blocks that it has from its parent
/// stay readable and writable, and freed they stay where they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

impl Allocator {
    /// The current figures.
    pub fn stats(&self) -> Result<sys::weir_heap_stats> {
        let mut stats: sys::weir_heap_stats = unsafe { std::mem::zeroed() };
        stats.struct_size = size_of::<sys::weir_heap_stats>();
        check(unsafe { sys::weir_heap_get_stats(heap(), &mut stats) })?;
        Ok(stats)
    }

    /// The most bytes that the heap may hold from now on; 0: no limit. Live blocks stay.
    pub fn set_limit(&self, limit_bytes: u64) -> Result<()> {
        check(unsafe { sys::weir_heap_set_limit(heap(), limit_bytes) })
    }

    /// Gives idle memory back to the system until at most `keep_bytes` are held. Returns the bytes given back.
    pub fn trim(&self, keep_bytes: u64) -> Result<u64> {
        let mut released = 0;
        check(unsafe { sys::weir_heap_trim(heap(), keep_bytes, &mut released) })?;
        Ok(released)
    }

    /// Why the last failed request failed, and what would help; "" if none has failed.
    pub fn explain(&self) -> String {
        written(|text, size| unsafe { sys::weir_heap_explain(heap(), text, size) })
    }

    /// Checks the invariants of the heap. Other threads may go on.
    pub fn check(&self) -> Result<()> {
        check(unsafe { sys::weir_heap_check(heap(), null_mut()) })
    }

    /// The bytes that a block may use, at least those of its layout; 0 for an address that is not the start of a live block.
    pub fn usable_size(&self, block: *const u8) -> usize {
        unsafe { sys::weir_heap_usable_size(heap(), block as *const c_void) }
    }
}

unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= HEAP_ALIGN {
            sys::weir_heap_alloc(heap(), layout.size()) as *mut u8
        } else {
            sys::weir_heap_alloc_aligned(heap(), layout.size(), layout.align()) as *mut u8
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= HEAP_ALIGN {
            return sys::weir_heap_alloc_zeroed(heap(), 1, layout.size()) as *mut u8;
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            write_bytes(block, 0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        sys::weir_heap_free(heap(), block as *mut c_void); // refused in a child of fork for a block of its parent
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= HEAP_ALIGN {
            let moved = sys::weir_heap_realloc(heap(), block as *mut c_void, size) as *mut u8;
            if !moved.is_null() || self.usable_size(block) != 0 {
                return moved;
            }
        }
        // A moved block of the heap has the heap's alignment only, and a block of a parent process is not the heap's.
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            copy_nonoverlapping(block, moved, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }
}
