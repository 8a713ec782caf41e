# header.awk: converts a public header for Doxygen. The headers have plain comments: one before a declaration, or one
# behind it on the same line. The filter turns them into Doxygen comments and writes the result to standard output.
#
#   - A header becomes a group of its name; its first comment becomes the group's comment. "/* --- words --- */" begins
#     a group inside that group, or a section inside a struct.
#   - A comment before a declaration also serves the following declarations without a comment, up to a blank line.
#   - Lines indented by four and more after a blank line or a colon are code and stay as they are.
#   - Names of weir become links. A name that does not exist is a Doxygen warning, and an error in the test.
#   - Each result (WEIR_ERR_...: why) begins a paragraph.
#   - Lists of the kind X(NAME, ...) are expanded where they define an enum; a note in the list goes to the enumerator.
#   - Include guards and macros for compilers only are left out.

function trim(s) { sub(/^[ \t]+/, "", s); sub(/[ \t]+$/, "", s); return s }

# --- text ---

# Returns text without backquotes for Doxygen: special characters are escaped, and names become links.
function plain(s,    out, name) {
    gsub(/[\\@<>#%&*]/, "\\\\&", s)
    out = ""
    while (match(s, /(weir|WEIR)_[A-Za-z0-9_]+/)) {
        name = substr(s, RSTART, RLENGTH)
        out = out substr(s, 1, RSTART - 1)
        linked = (RSTART == 1 || substr(s, RSTART - 1, 1) !~ /[A-Za-z0-9_$"]/) && name !~ /_$/ && !(name in not_names) &&
            substr(s, RSTART + RLENGTH) !~ /^[.](c|h|hpp|cpp|so|map|cmake|pc)([^A-Za-z0-9_]|$)/
        out = out (linked ? "#" : "") name
        s = substr(s, RSTART + RLENGTH)
    }
    return out s
}

# Returns text with `code` in it for Doxygen.
function marked(s,    parts, n, i, out) {
    n = split(s, parts, "`")
    if (n % 2 == 0) return plain(s) # an unpaired backquote
    out = ""
    for (i = 1; i <= n; i++) out = out (i % 2 ? plain(parts[i]) : "`" parts[i] "`")
    return out
}

function results(s) { # each result in a paragraph of its own
    gsub(/(^|[.;)]) +WEIR_ERR_[A-Z_]+(, WEIR_ERR_[A-Z_]+)*[:.]/, "\n\n&", s)
    gsub(/\n\n[.] +/, ".\n\n", s)
    gsub(/\n\n[;] +/, ";\n\n", s)
    gsub(/\n\n[)] +/, ")\n\n", s)
    return s
}

# Returns the Doxygen text of text[1..n], the lines of a comment without stars and with their indentation.
function body(n,    i, line, out, code, list, paragraph, depth, before) {
    out = paragraph = before = ""
    code = list = 0
    for (i = 1; i <= n; i++) {
        line = text[i]
        match(line, /^ */)
        depth = RLENGTH
        line = trim(line)
        if (line == "") {
            if (paragraph != "") out = out marked(results(paragraph)) "\n"
            paragraph = ""
            if (!code) out = out "\n"
            else pending = pending "\n"
            list = 0
        } else if (depth >= 4 && !list && (code || before == "" || before ~ /:$/)) {
            if (paragraph != "") out = out marked(results(paragraph)) "\n"
            paragraph = ""
            if (!code) out = out "@code{.c}\n"
            out = out pending substr(text[i], 5) "\n"
            code = 1
            pending = ""
            before = line
            continue
        } else {
            if (code) out = out "@endcode\n" pending
            code = 0
            pending = ""
            if (line ~ /^(-|[0-9]+[.]) /) {
                if (paragraph != "") out = out marked(results(paragraph)) "\n"
                paragraph = ""
                match(line, /^(-|[0-9]+[.]) /)
                out = out substr(line, 1, RLENGTH)
                line = substr(line, RLENGTH + 1)
                list = 1
            }
            paragraph = paragraph (paragraph == "" ? "" : " ") line
        }
        if (line == "" && code) continue
        before = line
    }
    if (paragraph != "") out = out marked(results(paragraph)) "\n"
    if (code) out = out "@endcode\n"
    pending = ""
    return out
}

# Copies the comment in lines first..last of the file to text[] and returns its number of lines. The lines hold only it.
function comment_text(first, last,    i, line, n) {
    n = 0
    for (i = first; i <= last; i++) {
        line = lines[i]
        if (i == last) sub(/[ \t]*\*\/[ \t]*(\\)?$/, "", line)
        if (i == first) sub(/^[ \t]*\/\*[ ]?/, "", line)
        else sub(/^[ \t]*[*]?[ ]?/, "", line)
        # Inside a struct, text without stars is indented like the comment.
        text[++n] = line
    }
    return n
}

function capital(s) { return toupper(substr(s, 1, 1)) substr(s, 2) }

function comment_end(first,    i) {
    for (i = first; i < count; i++) if (lines[i] ~ /\*\//) return i
    return count
}

# --- sections ---

# open[0]: the header's group, open[1]: a section of it, open[2]: a section inside a struct.
function end_section(at) {
    if (open[at]) print "/** @} */"
    open[at] = 0
}

function begin_section(title, inside) {
    if (inside) {
        end_section(2)
        print "/** @name " capital(plain(title)) "\n * @{ */"
        open[2] = 1
    } else {
        end_section(1)
        print "/** @defgroup " group "_" ++sections " " name ": " plain(title) "\n * @{ */"
        open[1] = 1
    }
}

function end_header() {
    end_section(1)
    end_section(0)
}

# --- X lists ---

function keep_list(i,    name, line, entry, note, n) {
    match(lines[i], /WEIR_[A-Z_]+/)
    name = substr(lines[i], RSTART, RLENGTH)
    n = 0
    while (lines[i] ~ /\\$/) {
        i++
        line = lines[i]
        while (line ~ /\/\*/ && line !~ /\*\// && i < count) { # a note over several lines
            sub(/[ \t]*\\$/, "", line)
            i++
            line = line " " trim(lines[i])
        }
        sub(/[ \t]*\\$/, "", line)
        note = ""
        if (match(line, /\/\*.*\*\//)) {
            note = trim(substr(line, RSTART + 2, RLENGTH - 4))
            line = substr(line, 1, RSTART - 1)
        }
        line = trim(line)
        sub(/^X\(/, "", line)
        sub(/\)$/, "", line)
        entries[name, ++n] = line
        notes[name, n] = note
    }
    sizes[name] = n
    return i
}

# An argument list split at commas outside of quotes.
function arguments(s, out,    n, i, c, quoted, part) {
    n = 0
    part = ""
    quoted = 0
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        if (c == "\"") quoted = !quoted
        if (c == "," && !quoted) { out[++n] = trim(part); part = "" }
        else part = part c
    }
    out[++n] = trim(part)
    return n
}

function expand(list, macro,    i, k, n, line, given, names, note, used) {
    n = arguments(parameters[macro], names)
    for (i = 1; i <= sizes[list]; i++) {
        arguments(entries[list, i], given)
        line = template[macro]
        note = notes[list, i]
        for (k = 1; k <= n; k++) {
            used = line
            gsub("##" names[k] "([^A-Za-z0-9_]|$)", given[k] "&", line)
            gsub("##" names[k], "", line)
            gsub("\\(" names[k] "\\)", given[k], line)
            if (line == used && note == "" && k > 1) { # the comment stands in the list only
                note = given[k]
                gsub(/"/, "", note)
            }
        }
        print "    " trim(line) (note != "" ? " /**< " marked(note) " */" : "")
    }
}

# --- declarations ---

# Returns a line of code without the parts for compilers only; a comment behind the code becomes a Doxygen comment.
function code_line(s,    at, rest) {
    gsub(/WEIR_API |ACL_FUNC_VISIBILITY |WEIR_EXTENSION | WEIR_NODISCARD/, "", s)
    at = index(s, "/*")
    if (at == 0) return s
    rest = substr(s, at + 2)
    s = substr(s, 1, at - 1)
    while (rest !~ /\*\// && here < count) rest = rest "\n" trim(lines[++here])
    sub(/[ \t]*\*\/.*/, "", rest)
    gsub(/\n([*] )?/, " ", rest)
    return s "/**< " marked(trim(rest)) " */"
}

BEGIN {
    for_compilers = "^#define (WEIR_API|WEIR_NODISCARD|WEIR_EXTENSION)"
    split("WEIR_TORCH WEIR_SIM_PRICES WEIR_RECORD WEIR_HEAP WEIR_API WEIR_NODISCARD WEIR_EXTENSION weir_torch WEIR_UNKNOWN", words, " ") # settings, libraries
    for (i in words) not_names[words[i]] = 1
}

{ lines[++count] = $0 }

END {
    name = FILENAME
    sub(/.*\//, "", name)
    group = name
    gsub(/[.].*/, "", group)
    if (name ~ /[.]hpp$/) group = group "_hpp"
    name = "weir/" name
    depth = 0
    doc = ""      # comment of the paragraph's declarations
    fresh = 0     # doc has just been printed
    statement = 0 # in the middle of a declaration
    for (here = 1; here <= count; here++) {
        line = lines[here]
        if (line ~ /^#ifndef WEIR_[A-Z_0-9]+_H(PP)?$/) { print "#if 1"; continue }
        if (line ~ /^#define WEIR_[A-Z_0-9]+_H(PP)?$/) continue
        if (line ~ for_compilers) { print ""; continue }
        if (line ~ /^[ \t]*$/) { doc = ""; print ""; continue }

        if (line ~ /^[ \t]*\/\*/) {
            last = comment_end(here)
            n = comment_text(here, last)
            here = last
            if (!seen_file) {
                sub(/^[^:]*: */, "", text[1])
                text[1] = capital(text[1])
                whole = body(n)
                print "/** @file\n" substr(whole, 1, index(whole, "\n")) "\n@ref " group " */"
                print "/** @defgroup " group " " name "\n" whole "\n@{ */"
                seen_file = open[0] = 1
            } else if (n == 1 && text[1] ~ /^--- .* ---$/) {
                begin_section(substr(text[1], 5, length(text[1]) - 8), depth > 0)
                doc = ""
            } else {
                if (lines[here + 1] ~ /^#if/ && lines[here + 2] ~ for_compilers) continue
                doc = body(n)
                print "/** " doc "*/"
                fresh = 1
                one = doc
                gsub(/\n/, " ", one)
            }
            continue
        }

        if (line ~ /^#define WEIR_[A-Z_]+\(X\)[ \t]*\\$/) {
            at = here
            here = keep_list(here)
            match(lines[at], /WEIR_[A-Z_]+/)
            print "#define " substr(lines[at], RSTART, RLENGTH) "(X)"
            doc = ""
            continue
        }
        if (match(line, /^#define WEIR_[A-Z_]+_ENUM\([^)]*\)/)) {
            head = substr(line, 9, RLENGTH - 8)
            macro = head
            sub(/\(.*/, "", macro)
            sub(/^[^(]*\(/, "", head)
            sub(/\)$/, "", head)
            parameters[macro] = head
            template[macro] = trim(substr(line, RLENGTH + 1))
            continue
        }
        if (line ~ /^#undef WEIR_[A-Z_]+_ENUM/) continue
        if (match(line, /^[ \t]+WEIR_[A-Z_]+_LIST\(WEIR_[A-Z_]+_ENUM\)/)) {
            list = trim(line)
            macro = list
            sub(/\(.*/, "", list)
            sub(/^[^(]*\(/, "", macro)
            sub(/\).*/, "", macro)
            expand(list, macro)
            continue
        }
        if (match(line, /^#define WEIR_[A-Z_]+_INIT WEIR_STRUCT_INIT\(/)) {
            type = substr(line, RLENGTH + 1)
            sub(/\).*/, "", type)
            print "/** A #" type " with its struct_size set and everything else zero. */"
            print line
            fresh = 0
            doc = ""
            continue
        }
        if (line ~ /^#ifdef __cplusplus/ && lines[here + 1] ~ /^}/) end_header()
        if (here == count) end_header()
        if (line ~ /^#/) { print code_line(line); fresh = 0; continue }

        if (depth == 0 && !statement && doc != "" && !fresh && line !~ /^[ \t}]/) printf "/** %s*/ ", one
        shown = code_line(line)
        if (line ~ /^}/ && depth > 0) end_section(2)
        bare = line
        sub(/\/\*.*/, "", bare)
        opens = gsub(/[{]/, "{", bare)
        closes = gsub(/[}]/, "}", bare)
        if (bare ~ /extern "C"/ || (bare ~ /^}[ \t]*$/ && depth == 0)) opens = closes = 0
        print shown
        depth += opens - closes
        fresh = 0
        sub(/[ \t]+$/, "", bare)
        statement = bare !~ /[;]$/
        if (depth > 0) statement = 0
        if (depth == 0 && bare ~ /^}.*;$/) doc = ""
    }
}
