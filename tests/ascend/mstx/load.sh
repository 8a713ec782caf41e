#!/usr/bin/env bash
# Checks how a tool is found and the reports of the checking tool, with programs that announce through libms_tools_ext.
#   load.sh ANNOUNCE MEMORY CHECKER [EXAMPLE]
set -euo pipefail
announce=$1 memory=$2 checker=$3 example=${4:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# A preloaded library precedes the sanitizer's; here this is intended.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0
unset MSTX_INJECTION_PATH LD_PRELOAD WEIR_MSTX_CHECK_REPORT WEIR_MSTX_CHECK_EXIT

# expect CODE REGEX COMMAND...: checks the exit status, and that stdout and stderr together match REGEX as a whole.
expect() {
    local code=$1 regex=$2 text status=0
    shift 2
    text=$("$@" 2>&1) || status=$?
    [ "$status" = "$code" ] || { echo "exit status $status instead of $code: $*"$'\n'"$text" >&2; exit 1; }
    [[ $text =~ ^$regex$ ]] || { echo "unexpected: $*"$'\n'"$text"$'\n'"instead of: $regex" >&2; exit 1; }
}
none='tool 0 domain 0 heap 0 region 0 range 0'
all='tool 1 domain 1 heap 1 region 1 range 1'
clean='weir_mstx_check: 1 heaps and 2 regions announced, 0 findings'
line='weir_mstx_check: '

echo "no tool"
expect 0 "$none" "$announce" leak
expect 0 "$none" env MSTX_INJECTION_PATH= "$announce"
expect 0 "$none" env MSTX_INJECTION_PATH="$scratch/none.so" "$announce"

for how in MSTX_INJECTION_PATH LD_PRELOAD; do
    echo "$how"
    tool=(env "$how=$checker" WEIR_MSTX_CHECK_EXIT=9)
    expect 0 "$all"$'\n'"$clean" "${tool[@]}" "$announce"
    expect 0 "$all"$'\n'"$clean" "${tool[@]}" "$announce" pointer
    expect 0 "$all"$'\n'"$clean" "${tool[@]}" "$announce" fork
    expect 9 "${line}region-overlap: .*"$'\n'"$all"$'\n'"${line}.*, 1 findings: 1 region-overlap" "${tool[@]}" "$announce" overlap
    expect 9 "$all"$'\n'"${line}region-withdrawn-again: .*, 1 findings: 1 region-withdrawn-again" \
        "${tool[@]}" "$announce" twice
    expect 9 "$all"$'\n'"${line}left-over: the heap .*, 1 findings: 1 left-over" "${tool[@]}" "$announce" leak
done

echo "fallback, report, exit status"
expect 0 "$all"$'\n'"$clean" env MSTX_INJECTION_PATH="$scratch/none.so" LD_PRELOAD="$checker" "$announce"
expect 0 "$all" env MSTX_INJECTION_PATH="$checker" WEIR_MSTX_CHECK_REPORT="$scratch/report" "$announce" overlap
[ "$(grep -c "^$line" "$scratch/report")" = 2 ] || { cat "$scratch/report" >&2; exit 1; }
expect 0 "${line}cannot write $scratch/no/report.*"$'\n'"$all"$'\n'"$clean" \
    env MSTX_INJECTION_PATH="$checker" WEIR_MSTX_CHECK_REPORT="$scratch/no/report" "$announce"

echo "real memory"
tool=(env LD_PRELOAD="$checker" WEIR_MSTX_CHECK_EXIT=9)
clean="${line}5 heaps and 0 regions announced, 0 findings"
expect 0 '' "$memory"
expect 0 "$clean" "${tool[@]}" "$memory"
expect 9 "${line}memory-missing: .*, 1 findings: 1 memory-missing" "${tool[@]}" "$memory" large
expect 9 "${line}memory-missing: .*, 1 findings: 1 memory-missing" "${tool[@]}" "$memory" gone
expect 9 "${line}memory-late: .*, 1 findings: 1 memory-late" "${tool[@]}" "$memory" late
expect 9 "${line}memory-device: .*, 1 findings: 1 memory-device" "${tool[@]}" "$memory" device
expect 9 "${line}memory-missing: no call .*, 1 findings: 1 memory-missing" "${tool[@]}" "$memory" stray
expect 9 "${line}.*, 2 findings: 1 memory-missing, 1 left-over" "${tool[@]}" "$memory" left
expect 9 "${line}memory-in-use: .*, 1 findings: 1 memory-in-use" "${tool[@]}" "$memory" early
# A tool that is loaded by its path does not see the runtime's memory and reports nothing about it.
expect 0 "$clean" env MSTX_INJECTION_PATH="$checker" WEIR_MSTX_CHECK_EXIT=9 "$memory" early

if [ -n "$example" ]; then
    echo "the example"
    expect 0 'no tool listens.*' "$example"
    for how in MSTX_INJECTION_PATH LD_PRELOAD; do
        expect 0 "${line}2 heaps and 2 regions announced, 0 findings"$'\n'"2 heap, 2 region" \
            env "$how=$checker" WEIR_MSTX_CHECK_EXIT=9 "$example"
    done
fi
echo "found, told, checked"
