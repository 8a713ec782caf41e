#!/usr/bin/env bash
# The README's first program is tests/examples/01_first.c, word for word, and each program it names exists.
#   readme_snippets.sh SOURCE_DIR
set -euo pipefail
cd "$1"
diff -u --label README.md --label tests/examples/01_first.c \
    <(awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' README.md) tests/examples/01_first.c
for path in $(grep -ohE '\b(tests|benchmarks|core|allocators|bindings|script)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' README.md \
    */README.md | sort -u); do
    case $path in *build/* | *TRACE* | *NAME*) continue ;; esac # placeholders
    [ -e "$path" ] || compgen -G "$path*" >/dev/null || { echo "a README names $path, which is not there" >&2; exit 1; }
done
echo "README snippets and paths are true"
