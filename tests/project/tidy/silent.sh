#!/usr/bin/env bash
# A library without internal checks never ends the program and never prints: none of its objects calls a function that
# does, and none uses stdout or stderr. (A checked build ends at a broken invariant.)
#   silent.sh OBJECT...
set -euo pipefail
ends='abort|exit|_exit|_Exit|quick_exit|raise|__assert_fail'
prints='stdout|stderr|(__)?v?(printf|dprintf)(_chk)?|puts|putchar|perror|psignal|v?syslog|v?warnx?|v?errx?'
[ $# -gt 0 ] || { echo 'no objects' >&2; exit 1; }
found=$(nm -A "$@" | grep -E " U ($ends|$prints)$" || true)
[ -z "$found" ] || { printf 'ends the program or prints: %s\n' "$found" >&2; exit 1; }
echo "$# objects neither print nor end the program"
