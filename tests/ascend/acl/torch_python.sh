#!/usr/bin/env bash
# Runs the Python of bindings/torch/README.md over the simulated runtime, and replays the trace that it records.
#     torch_python.sh SOURCE_DIR LIBWEIR_TORCH LIBASCENDCL [WEIR_COMMAND]
set -euo pipefail
source=$1 library=$2 runtime=$3 weir=${4-}
python=$(command -v python3) && "$python" -c 'import ctypes, json' 2>/dev/null || { echo "skipped: no python3"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The block of the README that begins with "import ctypes, json".
awk '/^```/ { inside = /^```python$/ ? 1 : 0; block = ""; next } inside { block = block $0 "\n" }
    /^import ctypes, json/ && inside { wanted = 1 } wanted && inside { text = block } wanted && !inside { exit } END { printf "%s", text }' \
    "$source/bindings/torch/README.md" >"$scratch/program.py"
grep -q '^def record' "$scratch/program.py" || { echo "the README has no such program" >&2; exit 1; }
cat >>"$scratch/program.py" <<'END'

import os, sys
acl = ctypes.CDLL("libascendcl.so")
assert acl.aclrtSetDevice(0) == 0
lib.weir_torch_alloc.restype = ctypes.c_void_p
lib.weir_torch_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
lib.weir_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
lib.weir_torch_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
MIB = 1 << 20
stream = ctypes.c_void_p()
assert acl.aclrtCreateStream(ctypes.byref(stream)) == 0

assert memory_stats()["allocation.all.current"] == 0
early = lib.weir_torch_alloc(3 * MIB, 0, None)
record(sys.argv[1])
for i in range(50):
    block = lib.weir_torch_alloc((1 + i % 5) * MIB, 0, stream)
    assert block
    lib.weir_torch_record_stream(block, None)
    lib.weir_torch_free(block, 0, 0, stream)
held = lib.weir_torch_alloc(8 * MIB - 32, 0, None)
stats = memory_stats()
assert stats["allocation.all.current"] == 2, stats
assert stats["allocated_bytes.all.current"] >= 11 * MIB, stats
assert stats["num_ooms"] == 0
lib.weir_torch_free(held, 0, 0, None)
assert trim() > 0
record(None)
try:
    record("/nowhere/at/all.wtr")
    raise AssertionError("recorded to nowhere")
except RuntimeError:
    pass
assert lib.weir_torch_alloc(1 << 40, 0, None) is None
assert "out of memory" in report()
lib.weir_torch_free(early, 0, 0, None)
assert trim(0, 0) > 0
assert memory_stats()["reserved_bytes.all.current"] == 0
assert acl.aclrtDestroyStream(stream) == 0

# With the program left to end the recording.
if len(sys.argv) > 2:
    block = lib.weir_torch_alloc(MIB, 0, None)
    lib.weir_torch_free(block, 0, 0, None)
END

export LD_LIBRARY_PATH=$(dirname "$library"):$(dirname "$runtime")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_PRELOAD=$runtime # python does not link it, and not every build of it can be loaded late (static thread-local data)
export WEIR_ASCENDCL_EXIT_CODE=0 # the pool is live until the end
"$python" "$scratch/program.py" "$scratch/run.wtr" 2>"$scratch/errors" || { cat "$scratch/errors" >&2; exit 1; }
trace=$scratch/run.device0.wtr
[ "$(grep -c '^p ' "$trace")" = 1 ] && [ "$(grep -c '^a ' "$trace")" = 51 ] && [ "$(grep -c '^f ' "$trace")" = 51 ] &&
    [ "$(grep -c '^u ' "$trace")" = 50 ] && [ "$(grep -c '^c ' "$trace")" = 1 ] || { cat "$trace" >&2; exit 1; }

WEIR_TORCH=record:$scratch/all.wtr,report:0 "$python" - "$scratch" <<'END' 2>>"$scratch/errors" || { cat "$scratch/errors" >&2; exit 1; }
import ctypes
lib, acl = ctypes.CDLL("libweir_torch.so"), ctypes.CDLL("libascendcl.so")
lib.weir_torch_alloc.restype = ctypes.c_void_p
lib.weir_torch_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
assert acl.aclrtSetDevice(0) == 0
assert lib.weir_torch_alloc(1 << 20, 0, None)
END
grep -q '^a ' "$scratch/all.device0.wtr" || { echo "the end of a program did not complete its recording" >&2; exit 1; }
if [ -n "$weir" ]; then
    "$weir" replay "$trace" --strategy caching,size_class,caching+vm --sweep=1.00:1.50:0.05 --no-timing >"$scratch/replayed" 2>&1 || { cat "$scratch/replayed" >&2; exit 1; }
fi
echo "the README's program runs"
