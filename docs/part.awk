# part.awk: succeeds if the lines of a block stand in a file, one after another and all indented by the same number of
# blanks. A line of "..." in the block stands for any number of lines.
#   awk -v block=BLOCK -f part.awk FILE

function indent(s) { match(s, /^ */); return RLENGTH }

# True if block[b..] stands at file[f..], indented by `by` blanks.
function stands(b, f, by,    k, want) {
    for (; b <= blocks; b++) {
        if (block_line[b] ~ /^ *[.][.][.]$/) {
            for (k = f; k <= files; k++) if (stands(b + 1, k, by)) return 1
            return b == blocks
        }
        want = block_line[b]
        if (want != "" && by > 0) want = sprintf("%" by "s", "") want
        if (f > files || file_line[f] != want) return 0
        f++
    }
    return 1
}

BEGIN { while ((getline line < block) > 0) block_line[++blocks] = line }
{ file_line[++files] = $0 }
END {
    for (f = 1; f <= files; f++) {
        by = indent(file_line[f]) - indent(block_line[1])
        if (by >= 0 && stands(1, f, by)) exit 0
    }
    exit 1
}
