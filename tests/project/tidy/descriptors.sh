#!/usr/bin/env bash
# Files of the libraries have descriptors above 2: a call that makes a descriptor stands inside above_standard
# (core/shared/descriptor.h), on the same line.
#   descriptors.sh SOURCE_DIR
# host_replay.c and run.c are of the weir command alone, which first fills 0 to 2 (benchmarks/weir/command/process.c).
set -euo pipefail
cd "$1"
failures=0
complain() { echo "$1" >&2; failures=$((failures + 1)); }

sources() {
    find core allocators bindings benchmarks/weir/{trace,models,replay,library,record} -type f \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cpp' -o -name '*.hpp' \) \
        ! -name host_replay.c ! -name run.c ! -path '*/include/*' -print0
}

calls='(?<![\w.>])(open|openat|creat|shm_open|memfd_create|socket|socketpair|accept4?|eventfd|epoll_create1?|timerfd_create|signalfd|pipe2?|dup[23]?|mkostemps?|mkstemps?|fopen|tmpfile|popen|opendir)\('
calls+='|\bSYS_(userfaultfd|perf_event_open|open|openat|memfd_create|eventfd2?|pidfd_open)\b|std::[io]?fstream'
while IFS= read -r line; do
    [[ $line == *above_standard\(* ]] || complain "a descriptor that may be 0, 1 or 2: $line"
done < <(sources | xargs -0 grep -nP "$calls" || true)
[ "$(sources | xargs -0 grep -l 'above_standard(' | wc -l)" -ge 10 ] || complain 'this looks in the wrong place: no file opens a descriptor'

[ $failures = 0 ] && echo 'descriptors of the libraries are above 2' || exit 1
