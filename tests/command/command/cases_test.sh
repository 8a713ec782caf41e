#!/usr/bin/env bash
# cases_test.sh WEIR CASES: files that real programs write and that were once read wrongly or refused without a reason.
set -uo pipefail
weir=$1 cases=$2
source "${BASH_SOURCE[0]%/*}/rig.sh"

shows() { good "$1" info "$cases/$2"; } # TEXT FILE

# ROCm numbers kernels by agent and memory by GPU.
shows '    work                  1' rocm-agent-numbers.json
shows 'work is on device 2 of the file and memory on device 0' rocm-agent-numbers.json

# One device is used, and its number is 1.
shows '1 stream, 1 host thread, 1 device, 2 events' info-device-count.wtr
bad 'two-devices-one-stream-number.wtr:3: stream 0 is of device 1' replay "$cases/two-devices-one-stream-number.wtr"

# A database whose header says write-ahead log misses nothing, unless a log lies beside it.
shows 'peak live  4.00 KiB' wal.db
cp "$cases/wal.db" logged.db
: >logged.db-wal
good 'peak live  4.00 KiB' info logged.db
echo changes >logged.db-wal
bad 'logged.db: is a SQLite database with changes in a write-ahead log' info logged.db
head -c 9000 "$cases/wal.db" >cut.db
bad 'cut.db: is a SQLite database that is cut off: 9000 of its 12288 bytes' info cut.db

# Files that are not the recording.
bad 'is a memory timeline (export_memory_timeline)' info "$cases/torch-memory-timeline.raw.json.gz"
bad 'is a Git LFS pointer; fetch the file by git lfs pull' info "$cases/git-lfs-pointer.pickle"
bad 'history was not recorded' replay "$cases/empty-snapshot.pickle"
printf '/annex/objects/SHA256E-s3--00.pickle\n' >annex.pickle
bad 'is a git-annex pointer' info annex.pickle
printf '<!DOCTYPE html>\n<html></html>\n' >timeline.html
bad 'is HTML or XML' info timeline.html

# Editors and shells of Windows put a byte order mark before a text.
marked() { printf '\xef\xbb\xbf' | cat - "$1" >"marked.${1##*.}"; }
marked "$cases/rocm-agent-numbers.json"
marked "$cases/info-device-count.wtr"
good 'source     kineto' info marked.json
good '2 events' info marked.wtr
printf '\xff\xfe{\0,\0\n\0' >wide.json
bad 'is UTF-16 text' info wide.json

# A file may have any number of notes; its description has the first.
{
    echo '#wtr 1'
    for ((i = 0; i < 1000; i++)); do echo "#note $i"; done
} >notes.wtr
good 'note       ... and 980 more' info notes.wtr
[ "$(grep -c '^  note ' out)" = 21 ] || complain "$(grep -c '^  note ' out) lines of notes"

finish "$bad_count files are refused by name, the others are read"
