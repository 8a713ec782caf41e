//! pool_blocks.rs: blocks of a pool over a simulated device, the reuse of their memory, and a refused request.
use weir::{Pool, PoolOptions, Simulator, SimulatorOptions};

fn main() -> weir::Result<()> {
    let device = Simulator::new(SimulatorOptions::default())?;
    let pool = Pool::new(&device, PoolOptions { limit_bytes: 64 << 20, ..Default::default() })?;
    let stream = pool.default_stream()?;
    for _layer in 0..100 {
        let block = stream.alloc(3 << 20)?;
        device.fill(&stream.native(), &block, 0, "layer")?; // queued, not yet run
    } // dropped, and correct while the fill is still queued
    let stats = pool.stats()?;
    println!("{} blocks of 3 MiB out of {} MiB", stats.allocs, stats.peak_reserved_bytes >> 20);

    let cache = pool.tag("kv cache")?;
    let held = (0..5).map(|_| stream.alloc_with(10 << 20, 0, cache)).collect::<weir::Result<Vec<_>>>()?;
    match stream.alloc(20 << 20) {
        Ok(block) => println!("{block:?}"),
        Err(error) => println!("{:?}: {error}", error.kind()),
    }
    println!("{} blocks are held, {} findings", held.len(), device.findings().len());
    Ok(())
}
