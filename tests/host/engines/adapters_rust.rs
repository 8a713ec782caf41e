// tests/host/engines/adapters_rust.rs: a program whose allocator is a weir heap.
#[path = "../../../bindings/host/engines/adapters/weir_heap.rs"]
mod weir_heap;

use std::collections::HashMap;
use std::os::raw::c_void;

#[global_allocator]
static ALLOCATOR: weir_heap::Heap = weir_heap::Heap::new();

extern "C" {
    fn weir_heap_usable_size(heap: *mut c_void, block: *const c_void) -> usize;
}

#[repr(align(4096))]
struct Page([u8; 4096]);

fn main() {
    let threads: Vec<_> = (0..4u64)
        .map(|seed| {
            std::thread::spawn(move || {
                let mut map = HashMap::new();
                for i in 0..20000u64 {
                    map.insert((i * 7919 + seed) % 5003, vec![i; (i % 50) as usize]);
                }
                map.values().map(|v| v.len()).sum::<usize>()
            })
        })
        .collect();
    let sum: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(sum > 100000);
    let page = Box::new(Page([7; 4096]));
    assert_eq!(page.as_ref() as *const Page as usize % 4096, 0);
    assert_eq!(page.0[4095], 7);
    let known = unsafe { weir_heap_usable_size(ALLOCATOR.handle(), page.as_ref() as *const Page as *const c_void) };
    assert!(known >= 4096);
    println!("rust: a heap is the allocator");
}
