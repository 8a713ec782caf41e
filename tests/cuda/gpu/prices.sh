#!/usr/bin/env bash
# gpu_prices writes a table that has every price, and `weir replay` takes it.   prices.sh GPU_PRICES WEIR TRACE
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
"$1" "$scratch/gpu.prices" || status=$?
[ $status = 0 ] || exit $status # 77: skipped
WEIR_SIM_PRICES=$scratch/gpu.prices "$2" replay "$3" --strategy caching,caching+vm --no-timing | tee "$scratch/out"
grep -qE "prices from $scratch/gpu.prices\$" "$scratch/out" || { echo "a price is missing:"; cat "$scratch/gpu.prices"; exit 1; }
