#!/usr/bin/env bash
# On a machine with a C compiler but without C++, cmocka and any other library, weir and its tests are configured and built.
# Tests that cannot be built report it and are skipped.
#   bare_test.sh SOURCE_DIR CMAKE_ARGUMENT...      (CC, CMAKE, CTEST, GENERATOR from the environment)
set -euo pipefail
source_dir=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "$*" >&2; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "failed: $*"; }; }
unset CFLAGS PKG_CONFIG_PATH
mkdir "$scratch/empty"

PKG_CONFIG_LIBDIR=$scratch/empty quietly "$CMAKE" -G "$GENERATOR" -S "$source_dir" -B "$scratch/build" \
    -DCMAKE_CXX_COMPILER=CMAKE_CXX_COMPILER-NOTFOUND -DWEIR_BUILD_BENCHMARKS=OFF -DWEIR_JEMALLOC=OFF -DWEIR_ACL_ROOT= "$@"
grep -q 'no cmocka (script/bootstrap test)' "$scratch/log" || fail "configuring does not say that cmocka is missing"
quietly "$CMAKE" --build "$scratch/build" --target weir test_unit_status
status=0
(cd "$scratch/build" && "$CTEST" -R '^(unit.status|abi.acl_ours|tidy.networks)$' --output-on-failure >"$scratch/log" 2>&1) || status=$?
for line in 'unit.status .*Skipped' 'abi.acl_ours .*Skipped' 'tidy.networks .*Passed'; do
    grep -q "$line" "$scratch/log" || { cat "$scratch/log" >&2; fail "no test is: $line"; }
done
[ $status = 0 ] || { cat "$scratch/log" >&2; fail "ctest is not content"; }
echo "built with a C compiler alone"
