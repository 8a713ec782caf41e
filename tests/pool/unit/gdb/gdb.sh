#!/usr/bin/env bash
# gdb prints a pool, a stream, a block and a range with the printers of script/gdb.
# Counts and pointers that are damaged afterwards do not make them fail or loop.
#   gdb.sh PROGRAM PRINTERS
set -euo pipefail
skip() { echo "skipped: $1"; exit 77; }
command -v gdb >/dev/null || skip 'gdb is not installed (script/bootstrap)'
gdb -batch -nx -ex 'python print("has python")' 2>/dev/null | grep -q 'has python' || skip 'this gdb has no python'
out=$(mktemp)
trap 'rm -f "$out"' EXIT
timeout 120 gdb -batch -nx -ex 'set debuginfod enabled off' -ex "source $2" -ex 'break program.c:show' -ex run \
    -ex 'print *pool' -ex 'print *stream' -ex 'print *block' -ex 'print *range' -ex 'print *range->prev' \
    -ex 'set print elements unlimited' -ex 'set var stream->front.large_count = -1' -ex 'print *stream' \
    -ex 'set var stream->front.large[0] = (weir_block *)8' -ex 'print *stream' \
    -ex 'set var pool->lanes = -1' -ex 'set var pool->lane_room = -1' -ex 'print *pool' \
    -ex 'set var pool->streams = (weir_stream **)8' -ex 'print *pool' \
    "$1" >"$out" 2>&1 </dev/null || true
grep -qiE 'ptrace.*not permitted' "$out" && skip 'this machine forbids ptrace'

fail() { echo "FAILED: no line matches: $1"; cat "$out"; exit 1; }
expect() { grep -qE "$1" "$out" || fail "$1"; }
expect '^\$1 = pool, [1-9][0-9]* bytes reserved \(peak [1-9][0-9]*, limit 67108864\), 3 blocks, 0 pending bytes'
expect 'streams\[1\] = stream 1, native 0x[0-9a-f]+, '
expect '^\$2 = stream 1, native 0x[0-9a-f]+, tick 1, 14336 bytes live, 7168 bytes cached$'
expect '^\$3 = block 0x[0-9a-f]+, 5120 bytes, live, requested 5000, tag 0$'
expect '^\$4 = range 0x[0-9a-f]+, [1-9][0-9]* bytes, free, lane 1, tick 0$'
expect '^\$5 = range 0x[0-9a-f]+, 5120 bytes, taken$'
expect '^\$6 = stream 1, .* damaged: [1-9][0-9]{8,} large blocks$'
expect '^\$7 = stream 1, .* damaged: [1-9][0-9]{8,} large blocks$'
expect '^\$8 = pool, .*streams\[1\] = stream 1, '
expect '^\$9 = pool, [^{]*$'
grep -qiE 'python exception|traceback' "$out" && fail 'no exception of a printer'
echo 'gdb prints a pool, a stream, a block and a range'
