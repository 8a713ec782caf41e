//! allocator.rs: the heap as a test program's allocator.
use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::os::raw::c_int;
use std::sync::mpsc::channel;
use std::sync::Mutex;
use std::thread;

#[global_allocator]
static ALLOCATOR: weir::Allocator = weir::Allocator;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(()); // a limit and a fork concern the whole process

const ALIGNS: [usize; 8] = [1, 8, 16, 32, 64, 4096, 65_536, 1 << 21];
const SIZES: [usize; 10] = [1, 15, 16, 17, 100, 1000, 5000, 70_000, 1 << 20, (5 << 20) + 3];

fn pattern(seed: usize, i: usize) -> u8 {
    (seed.wrapping_mul(31) + i.wrapping_mul(7) + i / 251) as u8
}

/// The bytes of a block that the tests write and read: all near its ends, some between.
fn places(size: usize) -> impl Iterator<Item = usize> {
    let end = size.min(100);
    (0..end).chain((end..size).step_by(1021)).chain(size.saturating_sub(20).max(end)..size)
}

unsafe fn write(block: *mut u8, size: usize, seed: usize) {
    places(size).for_each(|i| *block.add(i) = pattern(seed, i));
}

/// Whether the first `size` bytes are as `write` has left them in a block of `whole` bytes.
unsafe fn holds(block: *const u8, whole: usize, size: usize, seed: usize) -> bool {
    places(whole).filter(|i| *i < size).all(|i| *block.add(i) == pattern(seed, i))
}

#[test]
fn blocks_are_aligned_and_apart() {
    let mut held = Vec::new();
    for (n, (align, size)) in ALIGNS.iter().flat_map(|a| SIZES.iter().map(move |s| (*a, *s))).enumerate() {
        let layout = Layout::from_size_align(size, align).unwrap();
        let block = unsafe { alloc(layout) };
        assert!(!block.is_null() && block as usize % align == 0, "{:?}", layout);
        assert!(ALLOCATOR.usable_size(block) >= size);
        unsafe { write(block, size, n) };
        held.push((block, layout, n));
    }
    for (block, layout, n) in held {
        assert!(unsafe { holds(block, layout.size(), layout.size(), n) }, "{:?}", layout);
        unsafe { dealloc(block, layout) };
    }
    ALLOCATOR.check().unwrap();
}

#[test]
fn zeroed_blocks_are_zero_in_used_memory() {
    for align in ALIGNS {
        for size in SIZES {
            let layout = Layout::from_size_align(size, align).unwrap();
            unsafe {
                let used: Vec<_> = (0..4).map(|_| alloc(layout)).collect();
                used.iter().for_each(|block| block.write_bytes(0xa5, size));
                used.iter().for_each(|block| dealloc(*block, layout));
                let block = alloc_zeroed(layout);
                assert!(!block.is_null() && block as usize % align == 0);
                assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 0), "{:?}", layout);
                dealloc(block, layout);
            }
        }
    }
}

#[test]
fn a_resized_block_keeps_alignment_and_contents() {
    for align in ALIGNS {
        for (n, size) in SIZES.iter().enumerate() {
            for wanted in SIZES {
                let layout = Layout::from_size_align(*size, align).unwrap();
                unsafe {
                    let block = alloc(layout);
                    write(block, *size, n);
                    let moved = realloc(block, layout, wanted);
                    assert!(!moved.is_null() && moved as usize % align == 0, "{:?} to {}", layout, wanted);
                    assert!(holds(moved, *size, (*size).min(wanted), n), "{:?} to {}", layout, wanted);
                    assert!(ALLOCATOR.usable_size(moved) >= wanted);
                    dealloc(moved, Layout::from_size_align(wanted, align).unwrap());
                }
            }
        }
    }
}

#[test]
fn threads_free_blocks_of_other_threads() {
    let (to, from) = channel::<Vec<Box<[u8]>>>();
    let makers: Vec<_> = (0..3usize)
        .map(|seed| {
            let to = to.clone();
            thread::spawn(move || {
                for i in 0..200usize {
                    to.send((0..20).map(|j| vec![seed as u8; 1 + (i * 37 + j * 911) % 9000].into()).collect()).unwrap();
                }
            })
        })
        .collect();
    drop(to);
    let mut bytes = 0;
    for blocks in from {
        assert!(blocks.iter().all(|block| block.iter().all(|byte| *byte == block[0])));
        bytes += blocks.iter().map(|block| block.len()).sum::<usize>();
    }
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    assert!(bytes > 10 << 20);
    assert_eq!(ALLOCATOR.stats().unwrap().bad_frees, 0);
}

#[test]
fn at_the_limit_a_request_fails_with_the_reason() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let held = ALLOCATOR.stats().unwrap().held_bytes;
    ALLOCATOR.set_limit(held + (512 << 20)).unwrap();
    let mut large: Vec<u8> = Vec::new();
    let refused = large.try_reserve_exact(2 << 30).is_err();
    ALLOCATOR.set_limit(0).unwrap();
    assert!(refused);
    assert!(ALLOCATOR.explain().contains("no memory for 2147483648 bytes"), "{}", ALLOCATOR.explain());
    large.try_reserve_exact(64 << 20).unwrap();
    drop(large);
    ALLOCATOR.trim(0).unwrap();
}

extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// The number of the first step that fails, in a child with blocks of its parent; 0: none.
fn child_of_fork(mut grown: Vec<u64>, freed: Box<[u8]>, read: &str) -> c_int {
    if ALLOCATOR.usable_size(freed.as_ptr()) != 0 {
        return 1; // the child's heap does not have it
    }
    drop(freed);
    grown.extend(0..10_000); // moves to the child's heap
    if grown[..3] != [1, 2, 3] || grown.len() != 10_003 || ALLOCATOR.usable_size(grown.as_ptr() as *const u8) == 0 {
        return 2;
    }
    let words: Vec<String> = (0..1000).map(|i| format!("{} {}", read, i)).collect();
    if words[999] != "parent's 999" || ALLOCATOR.check().is_err() {
        return 3;
    }
    0
}

#[test]
fn a_child_of_fork_has_a_heap_of_its_own() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let (grown, freed, read) = (vec![1u64, 2, 3], vec![7u8; 5000].into_boxed_slice(), String::from("parent's"));
    let parents = ALLOCATOR.stats().unwrap();
    let mut status = -1;
    unsafe {
        let child = fork();
        if child == 0 {
            _exit(child_of_fork(grown, freed, &read));
        }
        assert!(child > 0 && waitpid(child, &mut status, 0) == child);
    }
    assert_eq!(status, 0, "the step that failed, times 256");
    assert_eq!((freed[4999], grown.len()), (7, 3));
    assert!(ALLOCATOR.stats().unwrap().allocs >= parents.allocs);
}
