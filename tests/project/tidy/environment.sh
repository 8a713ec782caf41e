#!/usr/bin/env bash
# Libraries read the environment only with secure_getenv, so that a process with another user's rights (set-uid, file
# capabilities) ignores its caller's settings. A file that reads `environ` itself checks getauxval(AT_SECURE).
#   environment.sh SOURCE_DIR
# mallocs.c, host_replay.c and run.c are of the weir command alone.
set -euo pipefail
cd "$1"
failures=0
complain() { echo "$1" >&2; failures=$((failures + 1)); }

sources() {
    find core allocators bindings benchmarks/weir/{trace,models,replay,library,record} -type f \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cpp' -o -name '*.hpp' \) \
        ! -name mallocs.c ! -name host_replay.c ! -name run.c -print0
}

while IFS= read -r line; do complain "not secure_getenv: $line"; done < <(sources | xargs -0 grep -nP '(?<!secure_)\bgetenv\b' || true)
while IFS= read -r file; do
    grep -q 'getauxval(AT_SECURE)' "$file" || complain "reads environ without getauxval(AT_SECURE): $file"
done < <(sources | xargs -0 grep -lE '\(environ\)|\*environ|environ\[' || true)
[ "$(sources | xargs -0 grep -l 'secure_getenv(' | wc -l)" -ge 5 ] || complain 'this looks in the wrong place: no file reads the environment'

[ $failures = 0 ] && echo 'the environment is read by secure_getenv' || exit 1
