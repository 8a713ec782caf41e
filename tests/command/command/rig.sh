# rig.sh: what the scripts of this folder share. A script sets weir=PATH and sources this file: it is then in an empty
# folder, which is removed at its end, with failures=0. Its last line is: finish 'TEXT'.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

complain() { echo "FAILED: $1"; failures=$((failures + 1)); }

# good TEXT ARGUMENTS...: the command succeeds and prints the text. Its output is in the files out and err.
good() {
    local text=$1 status=0
    shift
    "$weir" "$@" >out 2>err || status=$?
    [ $status = 0 ] || complain "weir $*: exit status $status: $(cat err)"
    grep -qF -- "$text" out || complain "weir $*: no '$text' in: $(head -c 2000 out)"
}

# bad TEXT ARGUMENTS...: one line on standard error with the text, exit status 2, nothing on standard output.
bad_count=0
bad() {
    local text=$1 status=0
    shift
    bad_count=$((bad_count + 1))
    "$weir" "$@" >out 2>err || status=$?
    [ $status = 2 ] || complain "weir $*: exit status $status, not 2"
    [ ! -s out ] || complain "weir $*: something on standard output"
    [ "$(wc -l <err)" = 1 ] || complain "weir $*: not one line: $(cat err)"
    grep -qF -- "$text" err || complain "weir $*: no '$text' in: $(cat err)"
}

# finish TEXT: ends the script.
finish() {
    [ $failures = 0 ] || exit 1
    echo "$1"
    exit 0
}
