"""A pool on a simulated device: the memory of a freed block serves the next one, and a record says why a request failed."""
import weir

device = weir.SimulatedDevice(1 << 30)
with weir.Pool(device, limit_bytes=64 << 20) as pool:
    for layer in range(100):
        block = pool.alloc(3 << 20, tag="layer")
        device.fill(block.address, block.size)  # queued, not yet run
        block.free()  # correct while the fill is still queued
    print(f"100 blocks of 3 MiB out of {pool.stats().peak_reserved_bytes >> 20} MiB")

    cache = [pool.alloc(10 << 20, tag="kv cache") for _ in range(5)]
    try:
        pool.alloc(20 << 20, tag="layer")
    except weir.OutOfMemoryError as refused:
        for holder in refused.record.holders:
            print(f"{holder.name}: {holder.requested_bytes >> 20} MiB in {holder.blocks} blocks")
        print(refused.record.advice[0].kind, refused.record.advice[0].bytes >> 20, "MiB")
    del cache
