#!/usr/bin/env bash
# clang accepts each source of the products without a warning.    clang_syntax.sh SOURCE_DIR BUILD_DIR
# The commands are those of BUILD_DIR/compile_commands.json, with gcc's replaced by clang's; nothing is compiled to code. Tests, and
# sources whose headers the build generates, are left to the clang phase of script/test full.
set -euo pipefail
source=$1 build=$2
command -v clang++ >/dev/null || { echo "skipped: no clang"; exit 77; }
commands=$(mktemp)
trap 'rm -f "$commands"' EXIT
sed -nE 's/^ *"command": "(.*)",?$/\1/p' "$build/compile_commands.json" |
    sed -E 's/\\(["\\])/\1/g
        s/^([^ ]*ccache )?[^ ]*(g\+\+|c\+\+)[^ ]* /clang++ -std=c++17 /; s/^([^ ]*ccache )?[^ ]*(gcc|cc)[^ ]* /clang /
        s/ -o [^ ]+ -c / -fsyntax-only /; s/ -O[0-9s]//; s/ -Wno-error=maybe-uninitialized//; s/$/ -Wall -Wextra -Werror/' |
    awk -v source="$source/" '
        index($0, source) == 0 || / -I[^ ]*\/benchmarks\/weir\/command .*output_report/ { next }
        { file = $0; sub(/ -Wall -Wextra -Werror$/, "", file); sub(/.* /, "", file); sub(source, "", file) }
        file ~ /^(core|allocators|bindings|benchmarks)\// && !(file in seen) { seen[file] = 1; print }' >"$commands"
count=$(wc -l <"$commands")
[ "$count" -gt 200 ] || { echo "only $count commands in $build/compile_commands.json"; exit 1; }
cd "$build"
if ! xargs -d '\n' -n 8 -P "${JOBS:-$(nproc)}" bash -c 'status=0; for command; do eval "$command" || status=1; done; exit $status' syntax <"$commands"; then
    echo "clang refuses or warns"
    exit 1
fi
echo "clang accepts $count sources"
