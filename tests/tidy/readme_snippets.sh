#!/usr/bin/env bash
# The README's C programs are those of tests/examples, word for word, and each file that a README names exists.
#   readme_snippets.sh SOURCE_DIR
set -euo pipefail
cd "$1"
number=0
for program in 01_first 06_ascend 07_host 08_heap; do # in the order of the README
    number=$((number + 1))
    diff -u --label README.md --label tests/examples/$program.c \
        <(awk -v want=$number '/^```c$/ { inside = ++seen == want; next } /^```$/ { inside = 0 } inside' README.md) \
        tests/examples/$program.c
done
for path in $(grep -ohE '\b(tests|benchmarks|core|allocators|bindings|script)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' README.md \
    */README.md | sort -u); do
    case $path in *build/* | *TRACE* | *NAME*) continue ;; esac # placeholders
    [ -e "$path" ] || compgen -G "$path*" >/dev/null || { echo "a README names $path, which is not there" >&2; exit 1; }
done
echo "README snippets and paths are true"
