#!/usr/bin/env bash
# Checks the output of a program of benchmarks/engines: the engine's results are the same as with its own allocator, its
# memory comes from weir, and weir holds little more than the peak of live bytes. Times are not checked.
#   program.sh PROGRAM LEAST_PERCENT_FROM_WEIR MOST_HELD_OF_LIVE ARGS...
set -euo pipefail
status=0
output=$("$1" --rounds 0 "${@:4}") || status=$?
echo "$output"
[ $status = 0 ] || exit $status # 77: the engine is not installed
grep -q '^  outputs  *identical, bit by bit$' <<<"$output" || { echo "outputs differ" >&2; exit 1; }
share=$(sed -nE 's/^  blocks of 4 KiB and more  *([0-9.]+) % of their bytes from weir.*/\1/p' <<<"$output")
held=$(sed -nE 's/^  peak held .* MiB, ([0-9.]+) of peak live$/\1/p' <<<"$output")
awk -v share="$share" -v least="$2" -v held="$held" -v most="$3" '
    BEGIN { exit !(share ~ /^[0-9]/ && held ~ /^[0-9]/ && share + 0 >= least + 0 && held + 0 > 0.99 && held + 0 <= most + 0) }' ||
    { echo "from weir: $share %, at least $2 %; held: $held of peak live, at most $3" >&2; exit 1; }
