# seed.awk: one source file with the bugs of the seeds that name it.
#
#   awk -v path=core/src/order/order.c -f seed.awk SEED... SOURCE
#
# A seed is a small diff without line numbers, after a head of "key: value" lines:
#
#   --- core/src/order/order.c
#   @@ static bool search(
#   -    old line, or several
#   +    new line, or several
#
# The old lines (and those that begin with a blank, which stay) stand in the source one after the other. With a text
# after @@ the first such place below the first line that contains it is meant; without one there is exactly one place.
# A seed that does not fit is an error: it would be a bug that nobody has seeded. Seeds are applied in the order given.

function complain(seed, what) {
    printf "%s: %s in %s\n", seed, what, path > "/dev/stderr"
    failed = 1
}

# Returns true if the old lines of the hunk stand at `at`.
function stands(hunk, at,    i) {
    for (i = 1; i <= olds[hunk]; i++) {
        if (at + i - 1 > lines || text[at + i - 1] != old[hunk, i]) {
            return 0
        }
    }
    return 1
}

# Returns the line at which the old lines of the hunk stand; 0 and a complaint if there is no such place or several.
function place(hunk,    first, at, found) {
    first = 1
    while (anchor[hunk] != "" && first <= lines && !index(text[first], anchor[hunk])) {
        first++
    }
    for (at = first; at <= lines; at++) {
        if (stands(hunk, at)) {
            if (anchor[hunk] != "") {
                return at
            }
            if (found) {
                complain(seed_of[hunk], "the lines to change stand in two places")
                return 0
            }
            found = at
        }
    }
    if (!found) {
        complain(seed_of[hunk], "the lines to change are not there any more")
    }
    return found
}

function splice(hunk, at,    i, shift) {
    shift = news[hunk] - olds[hunk]
    if (shift > 0) {
        for (i = lines; i >= at + olds[hunk]; i--) {
            text[i + shift] = text[i]
        }
    } else if (shift < 0) {
        for (i = at + olds[hunk]; i <= lines; i++) {
            text[i + shift] = text[i]
        }
    }
    lines += shift
    for (i = 1; i <= news[hunk]; i++) {
        text[at + i - 1] = new[hunk, i]
    }
}

FILENAME == ARGV[ARGC - 1] {
    text[++lines] = $0
    next
}
FNR == 1 {
    here = 0
}
/^--- / {
    here = $2 == path
    next
}
here && /^@@/ {
    hunks++
    anchor[hunks] = substr($0, 4)
    seed_of[hunks] = FILENAME
    next
}
here && /^[ -]/ {
    old[hunks, ++olds[hunks]] = substr($0, 2)
}
here && /^[ +]/ {
    new[hunks, ++news[hunks]] = substr($0, 2)
}
END {
    for (hunk = 1; hunk <= hunks; hunk++) {
        at = place(hunk)
        if (at) {
            splice(hunk, at)
        }
    }
    for (i = 1; i <= lines; i++) {
        print text[i]
    }
    exit failed
}
