"""package_test.py: the Python package. Bad arguments, uses after the end, threads, exceptions, forks and the interpreter's exit."""
import gc
import os
import subprocess
import sys
import tempfile
import threading
import typing
import unittest

import weir

MIB = 1 << 20


def python(text, **environment):
    """Runs a program in an interpreter of its own. Returns (exit status, output)."""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", text], env={**os.environ, **environment}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


class HeapTest(unittest.TestCase):
    def test_arrays(self):
        with weir.Heap() as heap:
            for letter, size in (("B", 1), ("f", 4), ("d", 8), ("q", 8)):
                array = heap.array(1000, letter, zero=True)
                self.assertEqual((len(array), array.itemsize, array.nbytes, array.readonly), (1000, size, 1000 * size, False))
                self.assertEqual(array[999], 0)
                array[999] = 7
                self.assertEqual(array[999], 7)
            aligned = heap.array(10, align=4096, long_lived=True)
            self.assertGreaterEqual(heap.stats().long_lived_bytes, len(aligned))
            heap.check()

    def test_a_block_goes_back_with_its_last_view(self):
        heap = weir.Heap()
        array = heap.array(MIB)
        part = array[10:20].cast("B")
        del array
        gc.collect()
        self.assertEqual(heap.stats().live_blocks, 1)
        part[0] = 5
        del part
        gc.collect()
        self.assertEqual((heap.stats().live_blocks, heap.stats().frees), (0, 1))

    def test_an_array_outlives_its_heap(self):
        with weir.Heap() as heap:
            array = heap.array(MIB)
        array[5] = 9
        self.assertTrue(heap.closed)
        del heap
        gc.collect()
        self.assertEqual(array[5], 9)

    def test_after_close(self):
        heap = weir.Heap()
        heap.close()
        heap.close()
        for call in (heap.stats, heap.trim, heap.explain, heap.check, lambda: heap.array(1), lambda: heap.set_limit(1),
                     heap.__enter__, lambda: heap.record("none.wtr")):
            with self.assertRaisesRegex(weir.InvalidError, "this heap is closed"):
                call()
        self.assertIn("closed", repr(heap))

    def test_limit(self):
        with weir.Heap(limit_bytes=8 * MIB, name="small") as heap:
            kept = heap.array(4 * MIB)
            with self.assertRaisesRegex(weir.OutOfMemoryError, "^small: no memory for .* raise limit_bytes by") as caught:
                heap.array(16 * MIB)
            self.assertIsInstance(caught.exception, MemoryError)
            self.assertIsNone(caught.exception.record)
            heap.set_limit(64 * MIB)
            heap.array(16 * MIB)
            self.assertEqual(heap.stats().failures, 1)
            self.assertGreater(heap.trim(), 0)
            del kept

    def test_bad_arguments(self):
        with weir.Heap() as heap:
            for count in (0, -1, 1 << 64, 1 << 62):
                with self.assertRaises(weir.Error):
                    heap.array(count, "q")
            for wrong in ("1", 1.5, None):
                with self.assertRaises(TypeError):
                    heap.array(wrong)
            with self.assertRaises(ValueError):
                heap.array(1, "no format")
            with self.assertRaises(weir.OutOfMemoryError):
                heap.array(1, align=24)
            with self.assertRaises(OSError):
                heap.record("/no such folder/run.wtr")
            self.assertEqual(heap.stats().live_blocks, 0)
        with self.assertRaisesRegex(weir.InvalidError, "align 7 is not a power of two"):
            weir.Heap(align=7)
        for wrong in (-1, (1 << 64) + MIB): # of which 64 bits would be a good limit
            with self.assertRaises(weir.InvalidError):
                weir.Heap(wrong)

    def test_an_exception_in_a_block(self):
        with self.assertRaises(ZeroDivisionError):
            with weir.Heap() as heap, heap.record(os.path.join(tempfile.mkdtemp(), "run.wtr")):
                array = heap.array(100)
                array[0] = 1 // 0
        self.assertTrue(heap.closed)

    def test_reclaim(self):
        calls = []
        kept = []

        def reclaim(size):
            calls.append(size)
            if len(calls) == 2:
                raise KeyError("in a callback")
            had = bool(kept)
            kept.clear()
            return had

        reported = []
        hook, sys.excepthook = sys.excepthook, lambda *what: reported.append(what[0])
        try:
            with weir.Heap(limit_bytes=8 * MIB, reclaim=reclaim) as heap:
                kept.append(heap.array(6 * MIB))
                array = heap.array(6 * MIB)
                self.assertEqual(len(array), 6 * MIB)
                with self.assertRaises(weir.OutOfMemoryError):
                    heap.array(6 * MIB)
                with self.assertRaises(weir.OutOfMemoryError):
                    heap.array(6 * MIB)
        finally:
            sys.excepthook = hook
        self.assertEqual((len(calls), reported), (3, [KeyError]))

    def test_threads(self):
        heap = weir.Heap()
        wrong = []

        def work(seed):
            kept = []
            for i in range(300):
                array = heap.array(1 + (i * 7919 + seed) % 50000)
                array[0] = array[-1] = seed
                kept.append(array)
                if len(kept) > 10:
                    old = kept.pop(i % 10)
                    wrong.extend([1] * (old[-1] != seed))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        self.assertEqual((wrong, heap.stats().live_blocks, heap.stats().bad_frees), ([], 0, 0))
        heap.check()

    def test_a_close_while_threads_work(self):
        for _ in range(10):
            heap = weir.Heap()
            begun = threading.Event()
            ends = []

            def work(heap=heap, begun=begun, ends=ends):
                try:
                    while True:
                        array = heap.array(20000)
                        array[0] = 1
                        begun.set()
                except weir.InvalidError as closed:
                    ends.append(str(closed))

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            begun.wait()
            heap.close()
            for thread in threads:
                thread.join()
            self.assertEqual(ends, ["this heap is closed"] * 3)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_fork(self):
        heap = weir.Heap()
        array = heap.array(100)
        array[0] = 42
        child = os.fork()
        if child == 0:
            wrong = array[0] != 42
            try:
                heap.array(1)
                wrong = True
            except weir.InvalidError as refused:
                wrong = wrong or "before a fork" not in str(refused)
            with weir.Heap() as own:
                own.array(1000)[0] = 1
            freed = []
            weir._heap.lib.weir_heap_free = lambda *block: freed.append(block)
            del array
            gc.collect()
            heap.close()
            os._exit(wrong or freed != [])
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual((array[0], heap.stats().live_blocks), (42, 1))

    def test_the_end_of_the_interpreter(self):
        status, output = python("""
import atexit, threading, weir
heap = weir.Heap(decay_thread=True)
array = heap.array(1 << 20)
pool = weir.Pool(weir.SimulatedDevice())
block = pool.alloc(1 << 20)
cycle = [heap, array, pool, block]
cycle.append(cycle)
def late():
    array[0] = 1
    heap.array(100)[0] = 2
    pool.alloc(100).free()
    print("late")
atexit.register(late)
def work():
    while True:
        array[5] = heap.array(5000)[0]
threading.Thread(target=work, daemon=True).start()
""")
        self.assertEqual((status, output), (0, "late\n"))


class PoolTest(unittest.TestCase):
    def setUp(self):
        self.device = weir.SimulatedDevice(256 * MIB)
        self.pool = weir.Pool(self.device, limit_bytes=64 * MIB)

    def tearDown(self):
        self.pool.close()
        self.device.close()

    def test_blocks(self):
        first = self.pool.alloc(3 * MIB, tag="one")
        self.assertEqual((first.size, first.tag, first.freed, first.address % 512), (3 * MIB, "one", False, 0))
        self.assertGreaterEqual(first.capacity, first.size)
        address = first.address
        first.free()
        self.assertTrue(first.freed)
        with self.pool.alloc(3 * MIB) as second:
            self.assertEqual(second.address, address)
        self.assertTrue(second.freed)
        stats = self.pool.stats()
        self.assertEqual((stats.allocs, stats.frees, stats.sizes), (2, 2, {2 * MIB: 2}))
        self.assertEqual(sum(stats.served.values()), 2)
        self.assertEqual(self.pool.tags()["one"].peak_requested_bytes, 3 * MIB)
        self.assertGreater(self.pool.trim(wait=True), 0)
        self.pool.check()

    def test_second_free(self):
        block = self.pool.alloc(1000)
        block.free()
        for call in (block.free, lambda: block.use(self.pool.stream())):
            with self.assertRaisesRegex(weir.InvalidError, "freed"):
                call()
        gc.collect()
        self.assertEqual(self.pool.stats().frees, 1)

    def test_frees_of_one_block_by_threads(self):
        for _ in range(50):
            block = self.pool.alloc(5000)
            results = []

            def free(block=block, results=results):
                try:
                    block.free()
                    results.append(True)
                except weir.InvalidError:
                    results.append(False)

            threads = [threading.Thread(target=free) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(results), [False, False, False, True])
        self.pool.check()

    def test_the_collector_frees(self):
        self.pool.alloc(MIB)
        gc.collect()
        self.assertEqual((self.pool.stats().allocs, self.pool.stats().live_bytes), (1, 0))

    def test_out_of_memory(self):
        kept = [self.pool.alloc(10 * MIB, tag="cache") for _ in range(5)]
        with self.assertRaises(weir.OutOfMemoryError) as caught:
            self.pool.alloc(20 * MIB, tag="layer")
        record = caught.exception.record
        self.assertEqual((record.size, record.tag, record.limit_bytes), (20 * MIB, "layer", 64 * MIB))
        self.assertEqual(record.holders, (weir.Holder("cache", 50 * MIB, 5),))
        self.assertEqual(record.advice[0].kind, "raise_limit")
        self.assertIn("held by", str(caught.exception))
        self.assertEqual(self.pool.would_fit(10 * MIB, 5), 1)
        self.pool.set_limits(limit_bytes=record.advice[0].bytes)
        self.pool.alloc(20 * MIB).free()
        self.assertEqual(len(kept), 5)

    def test_callbacks(self):
        kept = []
        seen = []

        def on_oom(record):
            seen.append(record.size)
            if len(seen) == 2:
                raise KeyError("in a callback")
            had = bool(kept)
            while kept:
                kept.pop().free()
            return had

        reported = []
        hook, sys.excepthook = sys.excepthook, lambda *what: reported.append(what[0])
        try:
            with weir.Pool(self.device, limit_bytes=16 * MIB, soft_limit_bytes=4 * MIB, on_oom=on_oom,
                           on_pressure=lambda over: seen.append(-over)) as pool:
                kept.append(pool.alloc(12 * MIB))
                self.assertLess(seen.pop(), 0)
                block = pool.alloc(12 * MIB)
                with self.assertRaises(weir.OutOfMemoryError):
                    pool.alloc(12 * MIB)
                block.free()
        finally:
            sys.excepthook = hook
        self.assertEqual(([s for s in seen if s > 0], reported), ([12 * MIB] * 2, [KeyError]))

    def test_the_order_of_ends(self):
        block = self.pool.alloc(MIB)
        self.device.close()
        self.pool.close()
        with self.assertRaisesRegex(weir.InvalidError, "this pool is closed"):
            self.pool.alloc(1)
        with self.assertRaisesRegex(weir.InvalidError, "this device is closed"):
            weir.Pool(self.device)
        with self.assertRaisesRegex(weir.InvalidError, "this pool is closed"):
            block.use(weir.Stream(self.pool, 0, None))
        block.free()  # the last user: pool and device end here

    def test_bad_arguments(self):
        for wrong in (0, -1, 1 << 64):
            with self.assertRaises(weir.InvalidError):
                self.pool.alloc(wrong)
        for arguments in ({"strategy": "best"}, {"growth": "fast"}, {"limit_bytes": -1},
                          {"limit_bytes": 1, "soft_limit_bytes": 2}):
            with self.assertRaises(weir.InvalidError):
                weir.Pool(self.device, **arguments)
        with self.assertRaises(TypeError):
            weir.Pool(self.pool)
        with self.assertRaises(weir.InvalidError):
            self.pool.alloc(1, tag="")
        with self.assertRaises(weir.InvalidError):
            self.pool.alloc(1, align=24)
        with weir.Pool(self.device) as other, self.pool.alloc(1) as block:
            with self.assertRaises(weir.InvalidError):
                block.use(other.stream())
        with self.assertRaises(weir.InvalidError):
            weir.SimulatedDevice(1)

    def test_streams_and_the_auditor(self):
        device = weir.SimulatedDevice(64 * MIB, backed=True)
        with weir.Pool(device) as pool:
            side = pool.stream(device.stream())
            self.assertIs(pool.stream(side.native), side)
            block = pool.alloc(MIB)
            device.fill(block.address, MIB, 7)
            device.sync()
            pool.stream().synced()
            self.assertEqual(device.bytes(block.address, 3), b"\x07\x07\x07")
            block.use(side)
            block.free(side)
            side.retire()
            with self.assertRaises(weir.InvalidError):
                pool.alloc(1, side)
        device.sync()
        with self.assertRaises(weir.InvalidError):
            device.bytes(1, 1)
        self.assertTrue(all("outside" in text for text in device.findings()))

    def test_sleep_and_wake(self):
        device = weir.SimulatedDevice(64 * MIB, backed=True)
        with weir.Pool(device) as pool:
            blocks = {name: pool.alloc(4 * MIB, tag=name) for name in ("weights", "cache", "zeroed", "fixed")}
            plain = pool.alloc(4 * MIB)
            for i, block in enumerate((*blocks.values(), plain)):
                device.fill(block.address, 4 * MIB, i + 1)
            slept = pool.sleep(discard=["cache"], zero=["zeroed"], stay=["fixed"])
            self.assertEqual((slept.blocks, slept.kept_bytes), (4, 8 * MIB))
            self.assertTrue(blocks["weights"].asleep and plain.asleep)
            self.assertFalse(blocks["fixed"].asleep)
            with self.assertRaisesRegex(weir.BusyError, "sleeps"):
                plain.use(pool.stream(device.stream()))
            pool.set_limits(limit_bytes=6 * MIB)
            with self.assertRaisesRegex(weir.OutOfMemoryError, "bytes are missing to wake"):
                pool.wake()
            pool.set_limits()
            self.assertEqual(pool.wake("weights", "untagged").blocks, 2)
            self.assertTrue(blocks["zeroed"].asleep)
            self.assertEqual(pool.wake().asleep_blocks, 0)
            for block, value in ((blocks["weights"], 1), (blocks["zeroed"], 0), (blocks["fixed"], 4), (plain, 5)):
                self.assertEqual(device.bytes(block.address + 4 * MIB - 1, 1), bytes([value]))
            with self.assertRaises(weir.InvalidError):
                pool.sleep(stay=["cache"], zero=["cache"])
            with weir.Pool(device, virtual_memory=False) as regions:
                with self.assertRaisesRegex(weir.UnsupportedError, "no virtual memory"):
                    regions.sleep()
            pool.check()

    def test_reserved_blocks(self):
        device = weir.SimulatedDevice(64 * MIB, backed=True)
        with weir.Pool(device, limit_bytes=32 * MIB) as pool:
            block = pool.reserve(1024 * MIB, unit=4 * MIB, tag="cache")
            self.assertEqual((block.unit, block.committed_bytes, pool.stats().reserved_bytes), (4 * MIB, 0, 0))
            block.commit(8 * MIB, 8 * MIB)
            block.commit(40 * MIB, 4 * MIB)
            self.assertEqual(block.committed(), [(8 * MIB, 8 * MIB), (40 * MIB, 4 * MIB)])
            self.assertEqual(pool.tags()["cache"].requested_bytes, 12 * MIB)
            device.fill(block.address + 8 * MIB, 8 * MIB, 9)
            block.decommit(8 * MIB, 4 * MIB)
            self.assertEqual(block.pending_bytes, 4 * MIB)
            with self.assertRaises(weir.OutOfMemoryError) as failed:
                block.commit(64 * MIB, 64 * MIB)
            self.assertEqual(failed.exception.record.size, 64 * MIB)
            with self.assertRaisesRegex(weir.InvalidError, "whole units"):
                block.commit(0, MIB)
            pool.sleep()
            pool.wake()
            self.assertEqual(device.bytes(block.address + 16 * MIB - 1, 1), b"\x09")
            self.assertEqual(pool.stats().uncommitted_bytes, 1016 * MIB)
            block.free()
            for call in (block.committed, lambda: block.commit(0, 4 * MIB), lambda: block.asleep):
                with self.assertRaisesRegex(weir.InvalidError, "freed"):
                    call()
            pool.trim(wait=True)
            self.assertEqual(pool.stats().reserved_bytes, 0)

    def test_a_free_on_another_stream(self):
        device = weir.SimulatedDevice(64 * MIB, backed=True)
        with weir.Pool(device) as pool:
            side = pool.stream(device.stream())
            block = pool.alloc(MIB)
            address = block.address
            device.fill(address, MIB, 7, side.native)
            block.free(side)
            self.assertNotEqual(pool.alloc(MIB).address, address)
            self.assertEqual(pool.alloc(MIB, side).address, address)

    def test_strategies(self):
        for strategy in ("caching", "size_class", "bump"):
            for virtual in (True, False):
                with weir.Pool(self.device, strategy, virtual_memory=virtual, growth="grow_first") as pool:
                    blocks = [pool.alloc(1000 + i * 5000) for i in range(50)]
                    self.assertEqual(len({block.address for block in blocks}), 50)
                    pool.check()
                    del blocks

    def test_devices_that_are_not_there(self):
        for kind in (weir.CudaDevice, weir.AscendDevice):
            name = f"import weir\ntry:\n    weir.{kind.__name__}()\n    print('there')\nexcept weir.UnsupportedError as why:\n    print(why)"
            status, output = python(name, LD_LIBRARY_PATH="")
            self.assertEqual(status, 0, output)
            self.assertRegex(output, "^there|lib(cuda|ascendcl)")  # a build's own library finds the simulated runtime

    def device_of_a_double(self, kind, folder, library):
        if not folder or not os.path.exists(os.path.join(folder, library)):
            self.skipTest(f"no {library} in this build")
        status, output = python(f"""
import weir
with weir.{kind}(0) as device, weir.Pool(device, limit_bytes=64 << 20) as pool:
    for i in range(10):
        pool.alloc(3 << 20).free()
    print(pool.stats().allocs, pool.stats().peak_reserved_bytes >> 20 < 16)
try:
    weir.{kind}(99)
except weir.Error as why:
    print(type(why).__name__)
""", LD_LIBRARY_PATH=folder)
        self.assertEqual((status, output.split("\n")[:2]), (0, ["10 True", "InvalidError"]), output)

    def test_cuda_on_a_double(self):
        self.device_of_a_double("CudaDevice", os.environ.get("FAKE_CUDA"), "libcuda.so.1")

    def test_acl_on_the_simulated_runtime(self):
        self.device_of_a_double("AscendDevice", os.environ.get("SIMULATED_ACL"), "libascendcl.so")


class CommandTest(unittest.TestCase):
    def test_record_and_replay(self):
        path = os.path.join(tempfile.mkdtemp(), "run.wtr")
        with weir.Heap() as heap:
            with heap.record(path) as recording:
                arrays = [heap.array(100000 + i) for i in range(20)]
                with self.assertRaises(weir.BusyError):
                    heap.record(path + "2")
                del arrays
            self.assertEqual(recording.lost, 0)
            self.assertEqual(recording.stop(), 0)
        run = weir.replay(path, strategies=["caching", "direct"], options=["--no-timing"])[0]
        self.assertEqual((run.peak_live_bytes, run.events), (sum(100000 + i for i in range(20)), 40))
        self.assertEqual([result.strategy for result in run.results], ["caching", "direct", "plan"])
        self.assertEqual(run["direct"].all["allocs"], 20)
        with self.assertRaises(KeyError):
            run["none"]

        device = weir.SimulatedDevice()
        with weir.Pool(device) as pool, pool.record(path):
            pool.alloc(5000).free()
        self.assertEqual([one.events for one in weir.replay(path, "llama_ctx_dyn", strategies=["caching"])], [2, 76])

    def test_replay_refuses(self):
        with self.assertRaisesRegex(weir.Error, "no-such-file: there is no such file"):
            weir.replay("no-such-file")
        with self.assertRaises(weir.InvalidError):
            weir.replay()
        with self.assertRaisesRegex(weir.Error, "best"):
            weir.replay("llama_ctx_dyn", strategies=["best"])

    def test_frame(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("no pandas")
        rows = weir.frame(weir.replay("llama_ctx_dyn"))
        self.assertIn("peak_reserved_bytes", rows.columns)
        self.assertEqual(rows.trace.nunique(), 1)

    def test_run(self):
        report = os.path.join(tempfile.mkdtemp(), "report")
        done = weir.run([sys.executable, "-c", "print(len(bytearray(5 << 20)))"], report=report, stdout=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, f"{5 * MIB}\n"))
        with open(report, encoding="utf-8") as text:
            self.assertIn("at the peak", text.read())
        done = weir.run([sys.executable, "-c", "bytearray(500 << 20)"], limit_bytes=100 * MIB, quiet=True, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"the program gets NULL", done.stderr)
        self.assertEqual(weir.run(["no-such-program"], stderr=subprocess.DEVNULL).returncode, 127)
        for wrong in ("ls", [], b"ls"):
            with self.assertRaises(weir.InvalidError):
                weir.run(wrong)

    def test_the_command(self):
        status, output = python("import sys\nfrom weir import _command\nsys.argv = ['weir', '--version']\n_command.main()")
        self.assertEqual((status, output), (0, f"weir {weir.__version__}\n"))

    def test_torch(self):
        status, output = python("""
import sys, types, weir
sys.modules["torch"] = None
try:
    weir.torch.enable()
except weir.UnsupportedError as why:
    print(why)
torch = sys.modules["torch"] = types.ModuleType("torch")
torch.__version__ = "9.9+none"
try:
    weir.torch.enable()
except weir.UnsupportedError as why:
    print(why)
""", XDG_CACHE_HOME="/nonexistent")
        self.assertEqual(status, 0, output)
        self.assertIn("PyTorch is not installed", output)
        self.assertRegex(output, r"no library for torch 9\.9\+none: weir\.torch\.build\(\) compiles .*9\.9_none\.so; `weir run")

    def test_types(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(weir.__file__), "py.typed")))
        for name in weir.__all__:
            self.assertTrue(hasattr(weir, name), name)
        self.assertIs(typing.get_type_hints(weir.Heap.array)["return"], memoryview)


if __name__ == "__main__":
    unittest.main()
