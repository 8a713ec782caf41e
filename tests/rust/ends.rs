//! ends.rs: a program whose threads hold blocks of the heap, and take and free more, while it ends.
use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::thread;

#[global_allocator]
static ALLOCATOR: weir::Allocator = weir::Allocator;

thread_local! {
    static WORDS: std::cell::RefCell<Vec<String>> = std::cell::RefCell::new(Vec::new());
}

fn main() {
    let (ready, started) = channel();
    for seed in 0..4u64 {
        let ready = ready.clone();
        thread::spawn(move || {
            let mut held = HashMap::new();
            for i in 0.. {
                held.insert((i * 7919 + seed) % 5003, vec![i; (i % 50) as usize]);
                if i == 20_000 {
                    ready.send(held.len()).unwrap();
                }
            }
        });
    }
    for i in 0..8 {
        thread::spawn(move || WORDS.with(|words| words.borrow_mut().extend((0..1000).map(|j| (i * j).to_string()))))
            .join()
            .unwrap();
    }
    let held: usize = started.iter().take(4).sum();
    let kept: &'static [u8] = Box::leak(vec![7; 1 << 20].into_boxed_slice());
    let stats = ALLOCATOR.stats().unwrap();
    assert!(stats.live_blocks > held as u64 / 2 && stats.live_bytes > 1 << 20 && stats.bad_frees == 0);
    println!("{} blocks of four threads and {} bytes are live", held, kept.len());
}
