#!/usr/bin/env bash
# A program with another user's rights ignores its caller's wishes in the environment: no code is loaded, no file is made.
# The same program without these rights obeys each of them.
#   rights.sh PROGRAM INTRUDER
set -euo pipefail
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip 'only root makes a set-uid program of another user'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/plugins" "$work/free"
cp "$1" "$work/program"
cp "$2" "$work/intruder.so"
cp "$2" "$work/plugins/hwloc_intruder.so"
chmod 755 "$work" "$work/plugins" "$work"/*program "$work/intruder.so"
chmod 777 "$work/free"
other=(setpriv --reuid 65534 --regid 65534 --clear-groups env -u MSTX_INJECTION_PATH -u WEIR_RECORD)
wishes=(MSTX_INJECTION_PATH="$work/intruder.so" HWLOC_PLUGINS_PATH="$work/plugins" WEIR_RECORD="$work/free/trace")
"${other[@]}" "$work/program" >"$work/out" 2>&1 || skip "another user cannot run a program here: $(head -n 1 "$work/out")"

fail() { echo "FAILED: $1"; cat "$work/out"; exit 1; }
grep -qx 'secure 0' "$work/out" || fail 'an ordinary program has other rights'

# Without other rights each wish alone is obeyed, so the checks below could find a wish that is obeyed.
"${other[@]}" "${wishes[0]}" "$work/program" >"$work/out"
grep -q intruder "$work/out" || fail 'MSTX_INJECTION_PATH is ignored'
"${other[@]}" "${wishes[1]}" "$work/program" >"$work/out"
grep -q intruder "$work/out" || echo 'HWLOC_PLUGINS_PATH is ignored: weir or its hwloc was built without plugins'
"${other[@]}" "${wishes[2]}" "$work/program" >"$work/out"
[ -e "$work/free/trace" ] || fail 'WEIR_RECORD is ignored'
rm "$work/free/trace"

chmod 4755 "$work/program"
"${other[@]}" "${wishes[@]}" "$work/program" >"$work/out"
grep -qx 'secure 0' "$work/out" && skip "set-uid programs have no rights in $work"
grep -qx 'tool 0' "$work/out" || fail 'a tool is there'
! grep -q intruder "$work/out" || fail 'code of the caller runs with other rights'
[ ! -e "$work/free/trace" ] || fail 'WEIR_RECORD makes a file with other rights'
echo 'wishes of the caller are ignored with other rights'
