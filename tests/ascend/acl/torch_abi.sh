#!/usr/bin/env bash
# A C function receives the arguments that C++ compilers pass by torch's types, and the shim compiles.
#     torch_abi.sh SOURCE_DIR
# Runs for every installed C compiler with every installed C++ compiler, at no and at full optimisation.
set -euo pipefail
source=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
include=(-I"$source/core/include" -I"$source/bindings/torch/include" -I"$source/tests/ascend/acl" -I"$source/tests/ascend/acl/stub"
    -I"$source/bindings/ascendcl/include")
warnings=(-Wall -Wextra -Werror)
tried=0

for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    for cxx in g++ clang++; do
        command -v $cxx >/dev/null || continue
        for level in -O0 -O3; do
            $cc -std=c11 $level "${warnings[@]}" "${include[@]}" -c "$source/tests/ascend/acl/torch_abi.c" -o "$scratch/callee.o"
            $cxx -std=c++17 $level "${warnings[@]}" "${include[@]}" "$source/tests/ascend/acl/torch_abi.cc" "$scratch/callee.o" \
                -o "$scratch/caller"
            "$scratch/caller" || { echo "$cc with $cxx $level" >&2; exit 1; }
            tried=$((tried + 1))
        done
        for torch in '' -DSTUB_OLD_TORCH; do
            $cxx -std=c++17 -O2 -fPIC $torch "${warnings[@]}" "${include[@]}" -c \
                "$source/bindings/ascend/torch/shim/weir_torch_npu.cpp" -o "$scratch/shim.o"
        done
    done
done
[ $tried -gt 0 ] || { echo "skipped: no C++ compiler"; exit 77; }
echo "$tried pairs of compilers agree"
