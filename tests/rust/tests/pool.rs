//! pool.rs: pools over simulated devices, whose auditor is told of each block.
use std::thread;
use weir::{
    Block, Device, Error, ErrorKind, NativeStream, Pool, PoolOptions, Simulator, SimulatorOptions, Strategy, Stream,
    Tag,
};

const MIB: u64 = 1 << 20;

fn simulator() -> Simulator {
    Simulator::new(SimulatorOptions::default()).unwrap()
}

fn pool_of(device: &Simulator, limit_bytes: u64) -> Pool {
    Pool::new(device, PoolOptions { limit_bytes, ..Default::default() }).unwrap()
}

#[test]
fn memory_of_a_dropped_block_serves_its_own_stream_at_once() {
    for strategy in [Strategy::Caching, Strategy::SizeClass, Strategy::Bump] {
        let device = simulator();
        let pool = Pool::new(&device, PoolOptions { strategy, ..Default::default() }).unwrap();
        let stream = pool.default_stream().unwrap();
        for _ in 0..100 {
            let block = stream.alloc(3 * MIB).unwrap();
            assert!(block.size() == 3 * MIB && block.capacity() >= block.size());
            device.fill(&stream.native(), &block, 1, "layer").unwrap();
        }
        let stats = pool.stats().unwrap();
        assert_eq!((stats.allocs, stats.frees, stats.requested_bytes), (100, 100, 0));
        assert!(stats.peak_reserved_bytes <= 32 * MIB, "{:?}: {}", strategy, stats.peak_reserved_bytes);
        device.sync().unwrap();
        assert!(device.findings().is_empty(), "{:?}", device.findings());
        pool.check().unwrap();
    }
}

#[test]
fn the_auditor_finds_a_use_that_the_pool_was_not_told() {
    for tells in [true, false] {
        let device = simulator();
        let pool = pool_of(&device, 4 * MIB); // one block fits
        let (one, other) = (pool.default_stream().unwrap(), pool.stream(&device.create_stream().unwrap()).unwrap());
        let block = one.alloc(3 * MIB).unwrap();
        if tells {
            block.used_on(&other).unwrap();
        }
        device.fill(&other.native(), &block, 1, "late reader").unwrap();
        drop(block);
        let next = one.alloc(3 * MIB).unwrap();
        device.fill(&one.native(), &next, 2, "next").unwrap();
        drop(next);
        device.sync().unwrap();
        assert_eq!(device.findings().is_empty(), tells, "{:?}", device.findings());
    }
}

#[test]
fn a_refused_request_has_the_report() {
    let device = simulator();
    let pool = pool_of(&device, 64 * MIB);
    let stream = pool.default_stream().unwrap();
    let tag = pool.tag("kv cache").unwrap();
    assert_eq!(pool.tag("kv cache").unwrap(), tag);
    let mut held: Vec<Block> = (0..5).map(|_| stream.alloc_with(10 * MIB, 0, tag).unwrap()).collect();
    let error = stream.alloc(20 * MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMemory);
    assert!(error.to_string().contains("kv cache"), "{}", error);
    assert_eq!(pool.tag_stats(tag).unwrap().blocks, 5);
    assert_eq!(stream.would_fit(10 * MIB, 9).unwrap(), 1);
    held.truncate(1);
    assert_eq!(stream.would_fit(10 * MIB, 9).unwrap(), 5);
    assert_eq!(stream.alloc_with(20 * MIB, 2 * MIB, Tag::default()).unwrap().address() % (2 * MIB), 0);
    pool.set_limits(0, 96 * MIB).unwrap();
    stream.alloc(60 * MIB).unwrap();
    drop(held);
    assert!(pool.trim(0, true).unwrap() > 0);
    assert_eq!(pool.stats().unwrap().reserved_bytes, 0);
}

#[test]
fn wrong_arguments_are_errors_with_a_sentence() {
    let (device, other) = (simulator(), simulator());
    let pool = pool_of(&device, 0);
    let stream = pool.default_stream().unwrap();
    let refusal = |error: Error, part: &str| {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(part), "{}", error);
    };
    refusal(stream.alloc(0).unwrap_err(), "size");
    refusal(stream.alloc_with(100, 24, Tag::default()).unwrap_err(), "24");
    refusal(pool.tag("").unwrap_err(), "name");
    refusal(pool.stream(&other.create_stream().unwrap()).unwrap_err(), "device");
    let strange = pool_of(&other, 0).default_stream().unwrap();
    refusal(stream.alloc(100).unwrap().used_on(&strange).unwrap_err(), "pool");
    refusal(stream.alloc(100).unwrap().free_on(&strange).unwrap_err(), "pool");
}

#[test]
fn a_block_keeps_its_stream_pool_and_device() {
    let block = {
        let device = Simulator::new(SimulatorOptions { is_backed: true, ..Default::default() }).unwrap();
        let stream = pool_of(&device, 0).stream(&device.create_stream().unwrap()).unwrap();
        let block = stream.alloc(5000).unwrap();
        device.fill(&stream.native(), &block, 7, "fill").unwrap();
        assert_eq!(device.read(&stream.native(), &block).unwrap(), vec![7u8; 5000]);
        block
    };
    assert_eq!(block.stream().pool().stats().unwrap().requested_bytes, 5000);
    let pool = block.stream().pool();
    drop(block);
    assert_eq!(pool.stats().unwrap().requested_bytes, 0);
}

#[test]
fn a_stream_retires_when_nothing_uses_it() {
    let device = simulator();
    let pool = pool_of(&device, 0);
    let native = device.create_stream().unwrap();
    let block = pool.stream(&native).unwrap().alloc(MIB).unwrap();
    let busy = pool.stream(&native).unwrap().retire().unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert_eq!(pool.stats().unwrap().streams, 1);
    drop(block);
    pool.stream(&native).unwrap().retire().unwrap();
    assert_eq!(pool.stats().unwrap().streams, 0);
    let other = pool.default_stream().unwrap();
    let block = pool.stream(&native).unwrap().alloc(MIB).unwrap(); // a new handle of the same stream
    block.free_on(&other).unwrap();
    assert_eq!(pool.stats().unwrap().frees, 2);
}

#[test]
fn threads_share_a_pool() {
    fn may_cross<T: Send + Sync>() {}
    may_cross::<(Device, Simulator, NativeStream)>();
    may_cross::<(Pool, Stream, Block, Error)>();
    let device = simulator();
    let pool = pool_of(&device, 0);
    let threads: Vec<_> = (0..4u64)
        .map(|seed| {
            let (device, pool) = (device.clone(), pool.clone());
            thread::spawn(move || {
                let stream = pool.stream(&device.create_stream().unwrap()).unwrap();
                let mut held = Vec::new();
                for i in 0..500u64 {
                    let block = stream.alloc(1 + (i * 7919 + seed * 104_729) % 100_000).unwrap();
                    device.fill(&stream.native(), &block, seed as u8, "work").unwrap();
                    held.push(block);
                    if i % 3 != 0 {
                        held.swap_remove((i * 31) as usize % held.len());
                    }
                }
                held
            })
        })
        .collect();
    let held: Vec<Vec<Block>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(pool.stats().unwrap().allocs, 2000);
    drop(held); // in another thread than that of the allocs
    assert_eq!(pool.stats().unwrap().frees, 2000);
    device.sync().unwrap();
    assert!(device.findings().is_empty(), "{:?}", device.findings());
    pool.check().unwrap();
}
