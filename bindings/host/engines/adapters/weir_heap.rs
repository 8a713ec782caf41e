//! A weir heap as a Rust program's allocator. Link libweir: `rustc -l weir` or a build script.
//!
//!     #[global_allocator]
//!     static ALLOCATOR: weir_heap::Heap = weir_heap::Heap::new();
//!
//! The heap is made at the first request and never destroyed. Out of memory: a null pointer, as `GlobalAlloc` asks. If no
//! heap can be made, every request fails.

use std::alloc::{GlobalAlloc, Layout};
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

extern "C" {
    fn weir_heap_create(config: *const c_void, heap: *mut *mut c_void) -> c_int;
    fn weir_heap_destroy(heap: *mut c_void) -> c_int;
    fn weir_heap_alloc_aligned(heap: *mut c_void, size: usize, align: usize) -> *mut c_void;
    fn weir_heap_free(heap: *mut c_void, block: *mut c_void) -> c_int;
}

pub struct Heap(AtomicPtr<c_void>);

impl Heap {
    pub const fn new() -> Heap {
        Heap(AtomicPtr::new(null_mut()))
    }

    /// The heap, for the other functions of weir/heap.h.
    pub fn handle(&self) -> *mut c_void {
        let known = self.0.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let mut made = null_mut();
        unsafe {
            if weir_heap_create(null_mut(), &mut made) != 0 {
                return null_mut();
            }
            match self.0.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => made,
                Err(other) => {
                    weir_heap_destroy(made); // another thread was faster
                    other
                }
            }
        }
    }
}

unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        weir_heap_alloc_aligned(self.handle(), layout.size(), layout.align()) as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        weir_heap_free(self.handle(), block as *mut c_void);
    }
}
