#!/usr/bin/env bash
# Runs script/bench: one short round of the small cases of every row that is present. Figures must be numbers, absent rows
# must be named, and the plot must be well-formed.
#   bench_test.sh SOURCE_DIR PROGRAMS
set -euo pipefail
source_dir=$1 programs=$2
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "$*" >&2; cat "$scratch/out" "$scratch/log" >&2; exit 1; }
bench() { "$source_dir/script/bench" --quick --programs "$programs" "$@" >"$scratch/out" 2>"$scratch/log" || fail "bench $*: failed"; }

# figures NAME: prints the number of figures in the line of this measure: one for each row that takes part.
figures() { awk -F'|' -v name="$1" 'index($2, name) == 2 { for (i = 3; i < NF; i++) n += $i ~ /^ [0-9]/ } END { print n + 0 }' "$scratch/out"; }
expect() { [ "$(figures "$1")" -ge "$2" ] || fail "$1: $(figures "$1") figures, not $2"; }

bench table growth --plot "$scratch/plot.svg"
expect 'pair512, ns' 8 # five of weir, the loop, two of TLSF; and the mallocs
for name in 'mix1k, ns' 'threads2, ns'; do expect "$name" 6; done
expect 'pc512, ns' 6
expect 'cross4M, ns' 3
expect 'use512, ns' 3
expect 'log1k, 1 seed: reserved / live' 4
expect 'pair on each in turn, ns' 2
expect 'freed on another, ns' 2
expect 'entering one, ns' 2
expect 'mixed sizes, ns' 2
expect 'growing pair, ns' 2
for row in jemalloc mimalloc tcmalloc glibc; do
    grep -q "^Left out: \`$row\`, absent: ." "$scratch/out" || grep -q "| \`$row\` |" "$scratch/out" ||
        fail "$row has no figures, and no line says why"
done
python3 -c 'import sys, xml.etree.ElementTree as tree; assert len(tree.parse(sys.argv[1]).findall(".//{*}polyline")) >= 10' \
    "$scratch/plot.svg" || fail "the plot is not whole"

bench decay --plot "$scratch/decay.svg"
expect 'heap, never' 9
expect glibc 9
python3 -c 'import sys, xml.etree.ElementTree as tree; assert len(tree.parse(sys.argv[1]).findall(".//{*}polyline")) >= 4' \
    "$scratch/decay.svg" || fail "the plot of decay is not whole"

if [ -x "$programs/engine_xnnpack" ]; then
    bench engines --cells xnnpack --rows heap,glibc
    expect 'XNNPACK, convolutional network: CPU ms' 2
    expect 'peak MiB' 2
    expect 'MiB at the end' 2
    expect 'faults, first; later' 2
fi

bench recordings --cells llama_ctx_dyn,opencv_unet_dyn
expect llama_ctx_dyn 8
expect opencv_unet_dyn 8
expect 'geometric mean' 5
grep -q '^2 recordings. .* in none; its least limit in none[.]$' "$scratch/out" || fail "the last line is not about two recordings"

bench host --rows empty_loop,weir,glibc
expect 'pair/256, ns' 3
expect 'two/256, ns' 3
expect 'batch16/256, ns' 3
[ "$("$programs/micro_packing" tlsf | awk '{ print ($1 > 20 && $1 < 100) }')" = 1 ] || fail "host bytes of tlsf are not plausible"
echo "the benchmarks measure"
