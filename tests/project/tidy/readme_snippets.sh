#!/usr/bin/env bash
# The README and the pages of docs/ show programs of tests/project/examples whole, word for word; each file that a README names
# exists; and each link of a page leads to a file, and to a heading of it. README.md is short, and a script writes its
# figures (script/figures).
#   readme_snippets.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failures=0
complain() { echo "$1" >&2; failures=$((failures + 1)); }

shows() { # PAGE PROGRAM: one of the page's blocks of C is the program
    awk -v program="$2" '
        BEGIN { while ((getline line < program) > 0) want = want line "\n" }
        /^```c$/ { inside = 1; text = ""; next }
        /^```$/ { if (inside && text == want) found = 1; inside = 0 }
        inside { text = text $0 "\n" }
        END { exit !found }' "$1" || complain "$1 does not show $2 as it is"
}
shows README.md tests/project/examples/01_first.c
shows docs/ascend.md tests/project/examples/06_ascend.c
shows docs/host.md tests/project/examples/07_host.c
shows docs/embed.md tests/project/examples/08_heap.c

[ "$(wc -l <README.md)" -le 250 ] || complain 'README.md has more than 250 lines'
while read -r line; do
    complain "README.md: a figure outside of the tables that script/figures writes: $line"
done < <(awk '/^```/ { fence = !fence } /^<!-- .*: written by/ { inside = 1 } /^<!-- end of/ { inside = 0 } !fence && !inside' README.md |
    grep -E '[0-9] (ns|us|ms|microseconds|times|%)' | grep -v 'at most 5 % and 8 MiB') # script/figures checks this sentence

for path in $(grep -ohE '\b(tests|benchmarks|core|allocators|bindings|script)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' README.md \
    */README.md | sort -u); do
    case $path in *build/* | *TRACE* | *NAME*) continue ;; esac # placeholders
    [ -e "$path" ] || compgen -G "$path*" >/dev/null || complain "a README names $path, which is not there"
done

# Prints the links of all pages as "page file#heading", without those to other sites and those inside code.
mapfile -t pages < <(find . \( -path ./.git -o -path './build*' \) -prune -o -name '*.md' -print)
links() {
    awk 'FNR == 1 { fence = 0 }
        /^ *```/ { fence = !fence; next }
        fence { next }
        {
            gsub(/`[^`]*`/, "")
            while (match($0, /\]\([^) ]+\)/)) {
                link = substr($0, RSTART + 2, RLENGTH - 3)
                $0 = substr($0, RSTART + RLENGTH)
                if (link !~ /^[a-z]+:/) print FILENAME, link
            }
        }' "${pages[@]}"
}
# Prints "page#heading" for each heading, as GitHub spells it.
headings() {
    awk 'FNR == 1 { fence = 0; split("", seen) }
        /^ *```/ { fence = !fence; next }
        !fence && /^#+ / {
            sub(/^#+ /, "")
            text = tolower($0)
            gsub(/\]\([^)]*\)/, "", text)
            gsub(/[^a-z0-9 _-]/, "", text)
            gsub(/ /, "-", text)
            print FILENAME "#" text (seen[text] ? "-" seen[text] : "")
            seen[text]++
        }' "${pages[@]}"
}
known=$(headings)
count=0
while read -r page link; do
    count=$((count + 1))
    file=${link%%#*}
    target=$page
    [ -z "$file" ] || target=$(dirname "$page")/$file
    [ -e "$target" ] || { complain "$page: the link $link leads nowhere"; continue; }
    [[ $link == *#* && $target == *.md ]] || continue
    grep -qxF "./$(realpath --relative-to=. "$target")#${link#*#}" <<<"$known" || complain "$page: $link names no heading"
done < <(links)
[ $count -gt 100 ] || complain 'hardly a link found'

[ $failures = 0 ] || exit 1
echo "README snippets, paths and $count links are true"
