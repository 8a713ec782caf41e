#!/usr/bin/env bash
# The walks of CONTRIBUTING.md are true: each page or file names the next one in its first 60 lines, and the last file calls
# or defines the function. Five steps are enough, and no product's README has more than 150 lines.
#   walks.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failures=0 walks=0
complain() { echo "$1" >&2; failures=$((failures + 1)); }
while IFS= read -r walk; do
    walks=$((walks + 1)) here=
    mapfile -t steps < <(grep -oE '`[^`]*`' <<<"${walk##* | }" | tr -d '`')
    [ ${#steps[@]} -le 6 ] || complain "more than five steps: $walk"
    for step in "${steps[@]}"; do
        if [ -z "$here" ]; then
            here=$step
        elif [ -e "$step" ]; then
            name=${step##*/}
            [ "$name" != README.md ] || name=$(basename "${step%/README.md}")
            grep -qF "$name" < <(head -n 60 "$here") || complain "$here does not name $step in its first 60 lines"
            here=$step
        else
            grep -q "\b$step(" "$here" || complain "$here has no $step"
        fi
    done
done < <(grep -F ' → ' CONTRIBUTING.md)
[ $walks -gt 0 ] || complain 'CONTRIBUTING.md shows no walk'
for folder in $(sed -nE 's/^[a-z]+ [|] ([^|]*) [|].*/\1/p' tests/products.txt); do
    [ ! -e "$folder/README.md" ] || [ "$(wc -l <"$folder/README.md")" -le 150 ] || complain "$folder/README.md has more than 150 lines"
done
[ $failures = 0 ] && echo "$walks walks are true" || exit 1
