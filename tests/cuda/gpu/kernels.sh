#!/usr/bin/env bash
# NVIDIA's assembler accepts the kernels for every architecture that it knows.   kernels.sh PROGRAM
set -euo pipefail
ptxas=$(command -v ptxas || true)
[ -n "$ptxas" ] || { echo "skipped: no ptxas (a part of the CUDA toolkit)"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" >"$scratch/kernels.ptx"
tried=0
for architecture in $("$ptxas" --help | grep -oE "'sm_[0-9]+'" | tr -d "'" | sort -u); do
    "$ptxas" -arch="$architecture" "$scratch/kernels.ptx" -o "$scratch/kernels.cubin"
    tried=$((tried + 1))
done
[ $tried -gt 0 ] || { echo "ptxas --help names no architecture"; exit 1; }
echo "$tried architectures"
