#!/usr/bin/env bash
# The tree is in order: scripts have their run bit, folders have a README, and no file contains forbidden text.
#   tree.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failures=0
complain() { echo "$1" >&2; failures=$((failures + 1)); }

files() { find . \( -path ./.git -o -path './build*' -o -name '*.xz' -o -path ./tests/command/fuzz/corpus \) -prune -o -type f "$@" -print; }

for script in script/* .ci/*; do
    case $script in *.md | *.awk) continue ;; esac
    [ -f "$script" ] || continue
    [ -x "$script" ] || complain "$script has no run bit"
    bash -n "$script" || complain "$script: bash cannot read it"
done
rooms() { find bindings -name CMakeLists.txt ! -path '*/src/*' -printf '%h\n'; }
for folder in core allocators bindings/*/ $(rooms) benchmarks benchmarks/*/ benchmarks/weir/*/ tests script; do
    folder=${folder%/}
    [ -e "$folder/README.md" ] || grep -q "^| \`${folder##*/}/\`" "$(dirname "$folder")/README.md" 2>/dev/null ||
        complain "$folder has no README.md, and the one above it has no line for it"
done

# Forbidden: absolute paths of a developer's machine, and notes (such as reminders) without an explanation. The brackets
# in the patterns keep this file from matching itself.
while IFS= read -r line; do complain "workplace path: $line"; done < <(files | xargs grep -nIE '/wor[k]/|/hom[e]/' || true)
while IFS= read -r line; do complain "note without a reason: $line"; done < <(files -name '*.[ch]' |
    xargs grep -nIE '\b(TOD[O]|FIXM[E]|XX[X])\b' | grep -vE '(TOD[O]|FIXM[E])\([^)]+\): .{10}' || true)
while IFS= read -r line; do complain "blanks at the end: $line"; done < <(files ! -name LICENSE |
    xargs grep -nIE '[[:blank:]]+$' | cut -c1-120 || true)
while IFS= read -r line; do complain "tab: $line"; done < <(files -name '*.[ch]' | xargs grep -nI $'\t' | cut -c1-120 || true)

# Every option of the configuration is in CONTRIBUTING.md, and the version that base.h names is in CHANGELOG.md.
for option in $(grep -ohE '\b(option\(WEIR_[A-Z_]+|set\(WEIR_[A-Z_]+ .*CACHE)' CMakeLists.txt | sed 's/.*(//; s/ .*//' | sort -u); do
    grep -q "\`$option\`" CONTRIBUTING.md || complain "CONTRIBUTING.md does not explain $option"
done
version=$(sed -nE 's/^#define WEIR_VERSION_(MAJOR|MINOR|PATCH) //p' core/include/weir/base.h | paste -sd.)
grep -q "^## $version" CHANGELOG.md || complain "CHANGELOG.md has no section for $version"

[ $failures = 0 ] && echo "the tree is in order" || exit 1
