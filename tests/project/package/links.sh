#!/usr/bin/env bash
# Checks that every link of every installed page leads to an installed file.    links.sh FOLDER_OF_DOCUMENTS
set -euo pipefail
cd "$1"
count=0 bad=0
for page in README.md docs/ascend.md docs/README.md core/README.md tests/project/examples/01_first.c docs/examples/first_fit.c; do
    [ -s "$page" ] || { echo "not installed: $page" >&2; bad=1; }
done
while IFS=$'\t' read -r page target; do
    case $target in http://* | https://* | '#'*) continue ;; esac
    count=$((count + 1))
    [ -e "$(dirname "$page")/${target%%#*}" ] || { echo "$page: nothing is at $target" >&2; bad=1; }
done < <(find . -name '*.md' ! -name CHANGELOG.md -exec awk '
    FNR == 1 { code = 0 }
    /^```/ { code = !code }
    code { next }
    { while (match($0, /\]\([^) ]*\)/)) { print FILENAME "\t" substr($0, RSTART + 2, RLENGTH - 3); $0 = substr($0, RSTART + RLENGTH) } }' {} +)
[ $count -ge 60 ] || { echo "only $count links found" >&2; bad=1; }
# If a page of the tree names a file that an installation does not have, the installed page keeps only the text.
! grep -nE '\]\($|\[[^]]*$' README.md docs/*.md | grep -v '`[^`]*\[[^`]*`\|```' >&2 || { echo "a link over two lines is not seen" >&2; bad=1; }
[ $bad = 0 ] || exit 1
echo "$count links, all to what is installed"
