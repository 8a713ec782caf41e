# page.awk: converts a README or a page of docs/ for Doxygen. A link to a file without a page in
# the reference (source, folder) becomes its text. A link to a public header goes to the header's page.
# All other text stays as it is.

function target_of(link) { return match(link, /\]\([^)]*\)$/) ? substr(link, RSTART + 2, RLENGTH - 3) : "" }

# Returns the path of a link's target relative to the source folder.
function from_here(target,    path) {
    path = FILENAME
    sub(/[^\/]*$/, "", path)
    path = path target
    while (sub(/[^\/]+\/[.][.]\//, "", path)) { }
    return path
}

function rewritten(link,    target, words, name) {
    target = target_of(link)
    words = substr(link, 2, length(link) - length(target) - 4)
    if (target ~ /^https?:/) return link
    if (target ~ /include\/weir\/[a-z_]*[.]hp*$/) {
        name = target
        sub(/^.*\//, "", name)
        sub(/[.]hpp$/, "_hpp", name)
        sub(/[.]h$/, "", name)
        gsub(/`/, "", words)
        return "[" words "](@ref " name ")"
    }
    sub(/#.*/, "", target)
    if (target ~ /[.]md$/) gsub(/`/, "", words)
    if (target ~ /[.]md$/) return "[" words "](" from_here(target) ")"
    return words
}

/^```/ { code = !code }
code { print; next }
{
    line = $0
    out = ""
    while (match(line, /\[[^]]*\]\([^) ]*\)/)) {
        link = substr(line, RSTART, RLENGTH)
        rest = substr(line, RSTART + RLENGTH)
        out = out substr(line, 1, RSTART - 1) rewritten(link)
        line = rest
    }
    print out line
}
