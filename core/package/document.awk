# document.awk: a page of the tree as it is installed. A link leads to where its target is installed, or becomes its text.
#   awk -v page=PATH -f document.awk MAP PATH     MAP: a path in the tree, and where that is installed, seen from the
#                                                 folder of documents

BEGIN { # from the page's folder up to that of documents
    folder = page
    if (!sub(/[^\/]*$/, "", folder)) folder = ""
    up = folder
    gsub(/[^\/]+\//, "../", up)
}

FNR == NR { installed[$1] = $2; next }

# The path in the tree that a link in this page means; a folder means its README.
function meant(target,    path) {
    path = folder target
    while (sub(/(^|\/)[^\/.]+[^\/]*\/[.][.]\//, "/", path)) { }
    sub(/^\//, "", path)
    if (path ~ /\/$/) path = path "README.md"
    return path
}

function rewritten(link,    at, target, anchor, path) {
    at = match(link, /\]\([^)]*\)$/)
    target = substr(link, at + 2, length(link) - at - 2)
    if (target ~ /^(https?:|#)/) return link
    anchor = ""
    if (match(target, /#.*/)) {
        anchor = substr(target, RSTART)
        target = substr(target, 1, RSTART - 1)
    }
    path = meant(target)
    if (!(path in installed)) return substr(link, 2, at - 2)
    if (installed[path] == path) return link
    return substr(link, 1, at + 1) up installed[path] anchor ")"
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
