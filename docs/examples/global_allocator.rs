//! global_allocator.rs: a program whose allocator is a weir heap, with a limit and its figures.
use std::collections::HashMap;

#[global_allocator]
static ALLOCATOR: weir::Allocator = weir::Allocator;

fn main() -> weir::Result<()> {
    let words: HashMap<u32, String> = (0..100_000).map(|i| (i, format!("word {i}"))).collect();
    let stats = ALLOCATOR.stats()?;
    println!(
        "{} blocks, {} % of the held memory is live",
        stats.live_blocks,
        100 * stats.live_bytes / stats.held_bytes
    );
    drop(words);

    ALLOCATOR.set_limit(64 << 20)?;
    let mut large: Vec<u8> = Vec::new();
    if large.try_reserve_exact(100 << 20).is_err() {
        print!("{}", ALLOCATOR.explain());
    }
    Ok(())
}
