"""A pool on a simulated device that sleeps and wakes, and a KV cache with one address and as much memory as it needs."""
import weir

device = weir.SimulatedDevice(1 << 30, backed=True)
with weir.Pool(device) as pool:
    weights = pool.alloc(24 << 20, tag="weights")
    cache = pool.reserve(512 << 20, unit=4 << 20, tag="kv cache")
    cache.commit(8 << 20, 16 << 20)
    device.fill(weights.address, weights.size, 7)
    print(f"awake: {pool.stats().reserved_bytes >> 20} MiB, the cache has {cache.committed()[0][1] >> 20} MiB of 512")

    report = pool.sleep(zero=["kv cache"])  # waits for the fill that is queued
    print(f"asleep: {pool.stats().reserved_bytes >> 20} MiB, {report.kept_bytes >> 20} MiB kept in host memory")
    pool.wake("weights")
    print(f"the weights begin with {device.bytes(weights.address, 1)[0]}, the cache sleeps: {cache.asleep}")
    pool.wake()
    cache.decommit(8 << 20, 12 << 20)
    print(f"awake: {pool.stats().reserved_bytes >> 20} MiB")
