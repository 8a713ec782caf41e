#!/usr/bin/env bash
# The first screen of script/demo: its figures are those of the replays, it fits into 100 columns, and recordings with several
# devices, without memory or with odd names do not break it.
#   demo.sh SOURCE_DIR WEIR
set -euo pipefail
cd "$1"
weir=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "$1" >&2; cat "$scratch/screen" >&2; exit 1; }
shows() { grep -qE -- "$1" "$scratch/screen" || fail "the screen lacks: $1"; }
screen() { awk -f script/demo.awk "$1" >"$scratch/screen"; }

"$weir" replay benchmarks/traces/{ort_unet_dyn_res,llama_ctx_dyn}.wtr.xz --strategy caching,caching+vm,pytorch,direct \
    --no-timing --no-audit --quiet --csv >"$scratch/csv"
screen "$scratch/csv"
shows "^    PyTorch's allocator \(model\) +222 MiB +#{50}$"
shows '^    weir +70 MiB +#{16}$'
shows '^  U-Net, ONNX Runtime +64 +222 +27 +70 +353 +68 +196 +74 +1,913$'
shows '^  In 2 of 2 recordings weir takes less memory'
! grep -E '.{101}' "$scratch/screen" >&2 || fail 'a line has more than 100 columns'

{
    head -n 1 "$scratch/csv"
    for row in caching pytorch caching+vm direct; do
        for device in 0 1; do
            printf '"a/odd, ""name"" that is longer than the column.wtr",%s,%s,4,4000000000,9000000000,2,,,,,1234567,,,,,,,,,,\n' $device $row
        done
        printf '"small.wtr",0,%s,4,100,200,2,,,3,50,7,,,,,,,,,,\n' $row
    done
} >"$scratch/odd"
screen "$scratch/odd"
shows '^  odd, "name" that is~, device 1 +3,815 +8,583 +1.2 M'
shows '^  small +0 +full +7'
shows 'weir runs out of memory[.]$'
shows '^  full: the device had no memory left'
! grep -E '.{101}' "$scratch/screen" >&2 || fail 'a line has more than 100 columns'

head -n 1 "$scratch/csv" >"$scratch/none"
! screen "$scratch/none" || fail 'no recording is a success'
echo 'the first screen of the demo is as it should be'
