# run.awk: parses a page for docs/run. Pass 1 writes each command to DIR/command.N (with needs.N and why.N), and each
# block of code to DIR/code.N with the name of its file in DIR/file.N. Pass 2 prints the page with DIR/output.N.
#   awk -v dir=DIR -v pass=1|2 -f run.awk PAGE

function trim(s) { sub(/[ \t]+$/, "", s); return s }

# True if the line `got` matches the line `want` of the page, in which "…" stands for any text.
function line_matches(want, got,    parts, n, i, at) {
    want = trim(want)
    n = split(want, parts, "…")
    if (n <= 1) return want == got
    if (substr(got, 1, length(parts[1])) != parts[1]) return 0
    got = substr(got, length(parts[1]) + 1)
    for (i = 2; i < n; i++) {
        at = index(got, parts[i])
        if (at == 0) return 0
        got = substr(got, at + length(parts[i]))
    }
    return length(got) >= length(parts[n]) && substr(got, length(got) - length(parts[n]) + 1) == parts[n]
}

# True if want[i..] matches got[j..]; a line of "…" stands for any number of lines.
function matches(i, j,    k) {
    for (; i <= wants; i++) {
        if (trim(want[i]) == "…") {
            for (k = j; k <= gots + 1; k++) if (matches(i + 1, k)) return 1
            return 0
        }
        if (j > gots || !line_matches(want[i], got[j])) return 0
        j++
    }
    return j > gots
}

# Prints the output of the command, or the lines of the page if they match it. Lines with "…" that still match are kept.
function print_output(    i, j, k, file, line) {
    file = dir "/output." number
    gots = 0
    while ((getline line < file) > 0) got[++gots] = line
    if ((getline line < file) < 0 || matches(1, 1)) { # the command was not run, or its output matches the page
        for (i = 1; i <= wants; i++) print want[i]
    } else {
        i = 1
        for (j = 1; j <= gots; j++) {
            for (k = i; k <= wants; k++) {
                if (index(want[k], "…") && trim(want[k]) != "…" && line_matches(want[k], got[j])) break
            }
            if (k <= wants) { print want[k]; i = k + 1 }
            else print got[j]
        }
    }
    close(file)
    wants = 0
}

function end_command() {
    if (!in_command) return
    if (pass == 2) print_output()
    in_command = 0
}

/^```/ && !fence {
    fence = 1
    console = $0 == "```console"
    code = $0 ~ /^```(c|cc|cpp|cmake|make|sh|bash|python|rust|js)$/
    if (code && pass == 1) {
        file = dir "/code." ++codes
        printf "" > file
        print named > (dir "/file." codes)
        close(dir "/file." codes)
    }
    if (pass == 2) print
    next
}
/^```/ {
    end_command()
    if (code && pass == 1) close(file)
    fence = console = code = 0
    needs = named = ""
    if (pass == 2) print
    next
}
console && /^\$ / {
    end_command()
    in_command = continued = 1
    number++
    if (pass == 1) {
        print substr($0, 3) > (dir "/command." number)
        if (needs != "") { print needs > (dir "/needs." number); print why > (dir "/why." number) }
    } else print
    wants = 0
    next
}
console && in_command && continued && /^> / {
    if (pass == 1) print substr($0, 3) > (dir "/command." number)
    else print
    next
}
console && in_command { continued = 0; want[++wants] = $0; next }
code && pass == 1 { print > file; next }
!fence && /^<!-- needs .*: .* -->$/ {
    needs = why = substr($0, 12, length($0) - 15)
    sub(/: .*/, "", needs)
    why = substr(why, index(why, ": ") + 2)
}
!fence && /^<!-- [A-Za-z0-9_.\/]+ -->$/ { named = $2 }
!fence && !/^<!--/ && !/^$/ { needs = named = "" }
pass == 2 { print }
