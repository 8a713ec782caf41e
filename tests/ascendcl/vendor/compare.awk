# compare.awk: the answers of two runtimes to the same random programs.
#   awk -f compare.awk -v second=SECOND KNOWN FIRST
#
#   FIRST, SECOND: output of random_programs. KNOWN: differences that are explained, a line each, with fields between tabs: a
#   pattern (an extended regular expression for the whole call), the first runtime's answer, the second's, the reason. Lines that
#   begin with # are comments. Prints the differences that no row explains, how often each row explained one, and a count. After
#   two different calls or a missing line the rest of that program is left out. Status 1: there were unexplained differences, or
#   nothing to compare.

function program_of(line) {
    return line == "" ? 1e15 : line + 0 > 0 ? int(line + 0) : 0
}

function call_of(line) {
    return substr(line, index(line, " ") + 1, index(line, ": ") - index(line, " ") - 1)
}

function answer_of(line) {
    return substr(line, index(line, ": ") + 2)
}

function unexplained(text) {
    differences++
    print text
}

function known_row(call, first, other,    i) {
    for (i = 1; i <= rows; i++) {
        if (first == first_of[i] && other == second_of[i] && call ~ ("^(" pattern[i] ")$")) {
            return i
        }
    }
    return 0
}

# Moves `other` to the second runtime's next line that is not of the program that is left out; "" at the end.
function advance() {
    do {
        other = ""
        if ((getline other < second) <= 0) {
            other = ""
        }
    } while (other != "" && program_of(other) == left_out)
}

function leave_out(program, text) {
    unexplained(text)
    left_out = program
    if (program_of(other) == left_out) {
        advance()
    }
}

function compare(line,    row) {
    while (program_of(other) < program_of(line)) {
        leave_out(program_of(other), "only the second: " other)
    }
    if (program_of(other) > program_of(line)) {
        leave_out(program_of(line), "only the first: " line)
        return
    }
    answers++
    if (line != other) {
        if (call_of(line) != call_of(other)) {
            leave_out(program_of(line), "two ways: " line " | " other)
            return
        }
        row = known_row(call_of(line), answer_of(line), answer_of(other))
        seen[row]++
        if (row == 0) {
            unexplained(line " | " answer_of(other))
        }
    }
    advance()
}

FILENAME == ARGV[1] && /^[^#]/ {
    if (split($0, field, "\t") != 4) {
        unexplained("a row without four fields: " $0)
    }
    rows++
    pattern[rows] = field[1]
    first_of[rows] = field[2]
    second_of[rows] = field[3]
    reason[rows] = field[4]
}

FILENAME == ARGV[2] {
    if (FNR == 1) {
        advance()
    }
    programs += program_of($0) != program
    program = program_of($0)
    if (program != left_out) {
        compare($0)
    }
}

END {
    if (other != "") {
        unexplained("only the second: " other)
    }
    for (row = 1; row <= rows; row++) {
        if (seen[row] > 0) {
            printf "known, %d times: %s: %s | %s: %s\n", seen[row], pattern[row], first_of[row], second_of[row], reason[row]
        }
    }
    printf "%d programs, %d answers, %d unexplained differences\n", programs, answers, differences
    exit (differences > 0 || answers == 0) ? 1 : 0
}
