#!/usr/bin/env bash
# weir as a subproject of a parent with strict warnings as errors and no build type. By default only weir's libraries are
# built, and in addition the parts that the parent links.
#   subproject_test.sh SOURCE_DIR CMAKE_ARGUMENT...      (CC, CMAKE, GENERATOR from the environment)
set -euo pipefail
source_dir=$1
shift
here=$source_dir/tests/project/package
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "$*" >&2; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "failed: $*"; }; }
unset CFLAGS CXXFLAGS ASCEND_HOME_PATH
configure() { # BUILD ARGUMENT...
    local build=$1
    shift
    quietly "$CMAKE" -G "$GENERATOR" -S "$here/parent" -B "$build" -DWEIR_SOURCE="$source_dir" "$@"
}
# Programs, and libraries that programs load, under a build folder.
files() { (cd "$1" && find . -path '*/CMakeFiles' -prune -o -type f \( -name '*.so*' -o -name '*.a' -o -perm -100 \) -printf '%f\n') | sort; }

configure "$scratch/default" "$@"
quietly "$CMAKE" --build "$scratch/default"
quietly "$scratch/default/parent"
files "$scratch/default" >"$scratch/files"
diff -u - "$scratch/files" >&2 <<<$'libweir.a\nparent' || fail "a subproject builds (+) other files than it should by default (-)"

quietly "$CMAKE" --build "$scratch/default" --target parent_acl
quietly "$scratch/default/parent_acl"

configure "$scratch/all" -DALL=ON "$@"
quietly "$CMAKE" --build "$scratch/all"
files "$scratch/all" >"$scratch/files"
for file in parent parent_acl libweir_torch.so libascendcl.so; do
    grep -q "^$file" "$scratch/files" || fail "not built: $file"
done
echo "a subproject builds its libraries, and what is linked, without a warning"
