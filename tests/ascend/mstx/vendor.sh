#!/usr/bin/env bash
# The checking tool under programs compiled with the vendor's headers: header-only, and with MSTX_NO_IMPL against our
# libms_tools_ext. Skips where the headers are not installed; WEIR_MSTX_INCLUDE names the folder that holds mstx/.
#   vendor.sh ANNOUNCE_SOURCE CHECKER LIBRARY_DIR CC [FLAGS...]
set -euo pipefail
source=$1 checker=$2 library_dir=$3
shift 3
compile=("$@")
include=
for dir in "${WEIR_MSTX_INCLUDE:-}" "${ASCEND_HOME_PATH:-}/include" "${ASCEND_HOME_PATH:-}/tools/mstx/include"; do
    [ -z "$include" ] && [ -e "$dir/mstx/ms_tools_ext_mem.h" ] && include=$dir
done
[ -n "$include" ] || { echo "skipped: no mstx/ms_tools_ext_mem.h (WEIR_MSTX_INCLUDE, ASCEND_HOME_PATH)"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0
unset MSTX_INJECTION_PATH LD_PRELOAD WEIR_MSTX_CHECK_REPORT WEIR_MSTX_CHECK_EXIT

"${compile[@]}" -std=gnu11 -DWITH_VENDOR -isystem "$include" "$source" -o "$scratch/header_only" -ldl
"${compile[@]}" -std=gnu11 -DWITH_VENDOR -DMSTX_NO_IMPL -isystem "$include" "$source" -o "$scratch/no_impl" \
    -L"$library_dir" -lms_tools_ext -Wl,-rpath,"$library_dir"

for program in header_only no_impl; do
    [ "$("$scratch/$program" leak)" = 'tool 0 domain 0 heap 0 region 0 range 0' ] || exit 1
    for how in MSTX_INJECTION_PATH LD_PRELOAD; do
        tool=(env "$how=$checker" WEIR_MSTX_CHECK_EXIT=9 WEIR_MSTX_CHECK_REPORT="$scratch/report")
        for what in good pointer fork; do
            text=$("${tool[@]}" "$scratch/$program" $what)
            [ "$text" = 'tool 1 domain 1 heap 1 region 1 range 1' ] || { echo "$program $what: $text" >&2; exit 1; }
            grep -q '1 heaps and 2 regions announced, 0 findings$' "$scratch/report" || { cat "$scratch/report" >&2; exit 1; }
        done
        for what in overlap:region-overlap twice:region-withdrawn-again leak:left-over; do
            status=0
            "${tool[@]}" "$scratch/$program" ${what%:*} >/dev/null || status=$?
            [ $status = 9 ] && grep -q "findings: 1 ${what#*:}$" "$scratch/report" || { cat "$scratch/report" >&2; exit 1; }
        done
    done
done
echo "checked programs of the vendor's headers in $include"
