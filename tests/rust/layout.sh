#!/usr/bin/env bash
# layout.sh SOURCE CC: the structs and the functions of the crate's sys.rs are those of the headers: the offset and the
# size of each member, and the kind of each parameter.
set -euo pipefail
source=$1 cc=$2
command -v rustc >/dev/null && rustc --version >/dev/null 2>&1 || { echo 'skipped: no rustc'; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sys=$source/bindings/rust/src/sys.rs
includes=$(find "$source"/core/include "$source"/allocators/include "$source"/bindings -name '*.h' -path '*/include/weir/*' \
    -printf '-I%h/.. ' | tr ' ' '\n' | sort -u | tr '\n' ' ')

# Both programs print the size of each struct, and the offset and the size of each member.
awk -v c="$scratch/layout.c" -v rust="$scratch/layout.rs" -v sys="$sys" '
    BEGIN {
        print "#include <stdio.h>\n#include <weir/acl.h>\n#include <weir/budget.h>\n#include <weir/cuda.h>\n#include <weir/heap.h>\n#include <weir/sim.h>\nint main(void)\n{" > c
        print "#![allow(dead_code)]\n#[path = \"" sys "\"]\nmod sys;\nfn size<T, M>(_: fn(&T) -> &M) -> usize {\n    std::mem::size_of::<M>()\n}\nfn main() {" > rust
    }
    /^pub struct / { name = $3; printf "    printf(\"%s %%zu\\n\", sizeof(%s));\n", name, name > c
        printf "    println!(\"%s {}\", std::mem::size_of::<sys::%s>());\n", name, name > rust }
    /^    pub(\(crate\))? [a-z_]+:/ && name != "" { member = $2; sub(/:.*/, "", member)
        printf "    printf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", name, member, name, member, name, member > c
        printf "    println!(\"%s.%s {} {}\", std::mem::offset_of!(sys::%s, %s), size(|s: &sys::%s| &s.%s));\n", name, member, name, member, name, member > rust }
    /^}/ { name = "" }
    END { print "    return 0;\n}" > c; print "}" > rust }' "$sys"
# shellcheck disable=SC2086
"$cc" -std=c11 $includes "$scratch/layout.c" -o "$scratch/c"
rustc --edition 2021 --cfg 'feature="ascend"' --cfg 'feature="cuda"' -o "$scratch/rust" "$scratch/layout.rs"
"$scratch/c" >"$scratch/c.txt"
"$scratch/rust" >"$scratch/rust.txt"
diff -u "$scratch/c.txt" "$scratch/rust.txt" || { echo "FAILED: sys.rs (+) differs from the headers (-)"; exit 1; }
echo "$(wc -l <"$scratch/c.txt") sizes and offsets"

# The kind of each parameter: a pointer, or the bytes of a number. C's come from the headers, Rust's from sys.rs.
kinds='function kind(text) {
        if (text ~ /[*]/ || text ~ /callback|weir_reclaim/) return "pointer"
        if (text ~ /(^| )(u?int64_t|size_t|u64|i64|usize|f64|double)( |$)/) return 8
        if (text ~ /(^| )(bool|u?int8_t|u8)( |$)/) return 1
        if (text ~ /(^| )void( |$)/ || text == "") return "none"
        return 4
    }'
{ # NAME RESULT PARAMETER...
    find "$source"/core "$source"/allocators "$source"/bindings -name '*.h' -path '*/include/weir/*' -exec cat {} + |
        tr '\n' ' ' | sed -E 's:/\*([^*]|\*+[^*/])*\*+/: :g; s/;/;\n/g' | grep -oE 'WEIR_API [^;]*\)' |
        sed -E 's/ WEIR_PRINTF\(.*//; s/^WEIR_API +//; s/ +/ /g' |
        awk -F'[()]' "$kinds"'{ name = $1; sub(/.*[ *]/, "", name); result = substr($1, 1, length($1) - length(name))
            line = name " " kind(result); n = split($2, p, ","); for (i = 1; i <= n; i++) line = line " " kind(p[i]); print line }'
} | sed 's/ none$//; s/^\([^ ]*\)$/\1 none/' | sort >"$scratch/declared"
tr '\n' ' ' <"$sys" | sed -E 's/ +/ /g; s/pub fn /\n&/g; s/;/;\n/g' | grep -E '^pub fn ' |
    awk -F'[()]' "$kinds"'{ name = $1; sub(/.* /, "", name); result = $3; sub(/.*-> */, "", result); sub(/;.*/, "", result)
        line = name " " kind(result); n = split($2, p, ","); for (i = 1; i <= n; i++) { sub(/.*: */, "", p[i]); if (p[i] !~ /^ *$/) line = line " " kind(p[i]) }
        print line }' | sort >"$scratch/used"
comm -13 "$scratch/declared" "$scratch/used" >"$scratch/differ"
[ ! -s "$scratch/differ" ] || { echo "FAILED: no header declares these functions so:"; cat "$scratch/differ"; exit 1; }
[ "$(wc -l <"$scratch/used")" -gt 40 ] || { echo "FAILED: only $(wc -l <"$scratch/used") functions were found in sys.rs"; exit 1; }
echo "$(wc -l <"$scratch/used") functions"
