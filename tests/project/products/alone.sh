#!/usr/bin/env bash
# A product is configured, built and tested with what it stands on and nothing else.
#   alone.sh SOURCE_DIR PRODUCT TARGET... -- CMAKE_ARGUMENT...     (CC, CMAKE, CTEST, GENERATOR from the environment)
# A target test_LABEL_NAME is the test label.name, which must pass; other targets are libraries.
set -euo pipefail
source_dir=$1 product=$2
shift 2
targets=()
while [ "$1" != -- ]; do targets+=("$1"); shift; done
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "$*" >&2; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "failed: $*"; }; }
below() { awk -F' *[|] *' -v product="$1" '$1 == product { print $3 }' "$source_dir/tests/products.txt"; }

# The options of all other products are off.
options=(-DWEIR_BUILD_BENCHMARKS=OFF)
wanted=" $product $(below "$product") "
for other in host ascendcl ascend cuda; do
    [[ $wanted == *" $other "* ]] || options+=("-DWEIR_${other^^}=OFF")
done
quietly "$CMAKE" -G "$GENERATOR" -S "$source_dir" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 \
    -DWEIR_ACL_ROOT= "${options[@]}" "$@"
quietly "$CMAKE" --build "$scratch/build" --target "${targets[@]}"
tests=
for target in "${targets[@]}"; do
    [[ $target != test_* ]] || { name=${target#test_} tests+="${tests:+|}${name/_/[.]}"; }
done
cd "$scratch/build"
quietly "$CTEST" -R "^($tests)\$" --no-tests=error --output-on-failure
for other in host ascendcl ascend cuda command; do
    [[ $wanted == *" $other "* ]] || ! "$CTEST" -N -L "^$other\$" | grep -qE '^ *Test +#' || fail "a build of $product alone has tests of $other"
done
echo "$product is built and tested alone: ${options[*]}"
