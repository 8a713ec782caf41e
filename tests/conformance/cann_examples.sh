#!/usr/bin/env bash
# CANN's public example programs and allocator tests, unchanged, on the simulated runtime.
#
#   cann_examples.sh SOURCE_DIR cann=CANN HEADERS LIBRARY CXX [LINK_FLAG...]
#
# CANN is a checkout of CANN's runtime repository; without one it skips. HEADERS is the folder whose acl/ the programs
# are compiled against: weir's, or CANN's own. A program passes when it exits with 0, prints what its README says it
# prints ("..." and "<name>" there stand for anything, and threads may change the order), and the auditor finds nothing.
# Where the README describes another machine or is wrong, or the program is, the table below says so. Their kernels are
# written for the device's compiler; ours of the same names are in kernels.cc. WEIR_PROGRAM in the environment: only
# programs whose name matches.
#
# Left out: programs of the acldump, acltdt, aclprof and aclnn families, and of functions the runtime does not have.
set -uo pipefail
[ -n "${2#cann=}" ] || { echo "skipped: WEIR_CANN_SOURCE names no checkout of CANN's runtime"; exit 77; }
[ -n "${5:-}" ] || { echo "skipped: no C++ compiler"; exit 77; }
source_dir=$1 cann=${2#cann=} headers=$3 library=$4 cxx=$5
shift 5
flags=("$@")
examples=$cann/example
[ -d "$examples" ] || { echo "$cann has no folder example" >&2; exit 1; }
[ -e "$headers/acl/acl.h" ] || { echo "$headers has no acl/acl.h" >&2; exit 1; }
conformance=$source_dir/tests/conformance
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What a program leaks is its own affair. The thread sanitizer leaves no addresses for two devices of ordinary size.
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS} WEIR_ASCENDCL_CAPACITY=1GiB
ran=0 failed=0

# build FOLDER SOURCE...: objects and program in $made. The flags of a sanitizer come with the link only: it
# judges the runtime, not the programs.
build() {
    local folder=$1 source
    shift
    for source in "$@"; do
        (cd "$folder" && "$cxx" -std=c++17 -O2 -w $abi "-I$headers" "${include[@]}" -c "$source" \
            -o "$made/$(basename "$source").o") || return
    done
    "$cxx" "${flags[@]}" "$made"/*.o "$scratch/kernels.o" "${objects[@]}" "$library" \
        "-Wl,-rpath,$(dirname "$library")" "${libraries[@]}" -pthread -ldl -o "$made/program"
}

complain() { # TEXT, then the log
    printf 'FAILED  %s: %s\n' "$name" "$1"
    sed 's/^/        /' "$log" | tail -n 40
    failed=$((failed + 1))
}

# What is wrong with the output: lines that the README promises and the program did not print, each as often as it
# should have, and errors it printed that neither the README nor EXPECTED, a regex, knows.
differences() { # LOG README BUT EXPECTED
    BUT=$3 EXPECTED=$4 awk '
        BEGIN { but = ENVIRON["BUT"]; expected = ENVIRON["EXPECTED"] }
        function pattern(line) {
            gsub(/[][\\.^$*+?(){}|]/, "\\\\&", line)
            gsub(/0x\\\.\\\.\\\./, "(0x[0-9a-f]+|\\(nil\\))", line)
            gsub(/\\\.\\\.\\\./, ".*", line)
            gsub(/<[a-z_]+>/, ".*", line)
            gsub(/  +/, " +", line)
            return "^" line "$"
        }
        FILENAME == ARGV[1] { printed[++lines] = $0; next }
        /^```/ { inside = !inside; next }
        !inside || !/^(\[(INFO|ERROR|WARN)\] |(Source|Destination) data:)/ || /\[SKIP\]/ { next }
        but != "" && $0 ~ but { next }
        {
            wanted = pattern($0)
            for (i = 1; i <= lines; i++)
                if (!taken[i] && printed[i] ~ wanted) { taken[i] = 1; next }
            print "not printed: " $0
        }
        END {
            for (i = 1; i <= lines; i++)
                if (!taken[i] && printed[i] ~ /^\[ERROR\]/ && (expected == "" || printed[i] !~ expected))
                    print "not expected: " printed[i]
        }' "$1" "$2"
}

# How many findings the last report of a program has.
audited() { # REPORT
    sed -nE 's/^weir ascendcl: the auditor found (nothing|[0-9]+).*/\1/p' "$1" | tail -n 1 | sed 's/nothing/0/'
}

# sample FOLDER [sources=...] [but=REGEX] [expect=REGEX]... [devices=N] [findings=N] [exit=N] [loader=yes]
#     [run=no]: builds and runs one.
#   but: lines of the README that do not hold here; expect: lines that must be printed; findings: how many the auditor
#   has; loader: with kernel_loader.cc; run=no: is only linked.
sample() {
    local folder=$examples/$1 argument status wrong
    local sources=main.cpp but='' expect=() devices=1 findings=0 wanted=0 run=yes
    local readme=$folder/README_en.md
    objects=()
    name=$1
    shift
    [[ $name =~ ${WEIR_PROGRAM:-.} ]] || return 0
    for argument in "$@"; do
        case $argument in
        sources=*) sources=${argument#*=} ;;
        but=*) but=${argument#*=} ;;
        expect=*) expect+=("${argument#*=}") ;;
        findings=*) findings=${argument#*=} ;;
        exit=*) wanted=${argument#*=} ;;
        devices=*) devices=${argument#*=} ;;
        loader=yes) objects=("$scratch/kernel_loader.o") ;;
        run=no) run=no ;;
        *) echo "sample: $argument?" >&2; exit 2 ;;
        esac
    done
    ran=$((ran + 1))
    made=$scratch/$ran log=$made/log libraries=() abi=-D_GLIBCXX_USE_CXX11_ABI=0
    mkdir -p "$made/file"
    include=("-I$folder" "-I$folder/.." "-I$examples" "-I$examples/kernel_func")
    if ! build "$folder" $sources >"$log" 2>&1; then
        complain "does not build"
        return
    fi
    if [ $run = no ]; then
        printf 'linked  %s\n' "$name"
        return
    fi
    (cd "$made" && WEIR_ASCENDCL_DEVICES=$devices WEIR_ASCENDCL_REPORT=report timeout 60 ./program >"$log" 2>&1)
    status=$?
    [ $status = "$wanted" ] || { complain "exit code $status, not $wanted"; return; }
    [ -e "$readme" ] || readme=/dev/null
    wrong=$(differences "$log" "$readme" "$but" "$(IFS='|' && echo "${expect[*]}")")
    for argument in "${expect[@]}"; do
        grep -qE "$argument" "$log" || wrong+="${wrong:+$'\n'}not printed: $argument"
    done
    if [ "$(audited "$made/report")" != "$findings" ]; then
        wrong+="${wrong:+$'\n'}the auditor found $(audited "$made/report"), not $findings"
        cat "$made/report" >>"$log"
    fi
    if [ -n "$wrong" ]; then
        complain "$wrong"
        return
    fi
    printf 'passed  %s\n' "$name"
}

# The allocator's unit tests: one class and two tests, cut out of a file whose rest tests other things.
unit_tests() {
    local from=$cann/tests/ut/acl/testcase/acl_runtime_unittest.cpp cut=$scratch/unit_tests.cc
    made=$scratch/unit_tests log=$made/log include=() objects=() libraries=(-lgtest -lgtest_main) abi=
    name=tests/ut/acl/testcase/acl_runtime_unittest.cpp:allocator
    [[ $name =~ ${WEIR_PROGRAM:-.} ]] || return 0
    if ! echo '#include <gtest/gtest.h>' | "$cxx" -std=c++17 -fsyntax-only -x c++ - 2>/dev/null; then
        echo "left out: $name: no gtest"
        return
    fi
    ran=$((ran + 1))
    mkdir "$made"
    {
        printf '#include "acl/acl.h"\n#include "acl/acl_rt_allocator.h"\n#include <gtest/gtest.h>\n'
        printf 'class UTEST_ACL_Runtime : public testing::Test {};\n'
        awk '/^class ExternalAllocatorDesc/ { inside = 1 }
            /^TEST_F\(UTEST_ACL_Runtime, aclrtAllocator(GetByStream|CreateDesc)/ { inside = 1 }
            inside { print }
            /^}/ { inside = 0 }' "$from"
    } >"$cut"
    if [ "$(grep -c '^TEST_F' "$cut")" != 2 ]; then
        cp "$cut" "$log"
        complain "the tests are not where they were"
        return
    fi
    if ! build / "$cut" >"$log" 2>&1; then
        complain "does not build"
        return
    fi
    (cd "$made" && WEIR_ASCENDCL_REPORT=report timeout 60 ./program >"$log" 2>&1) ||
        { complain "exit code $?"; return; }
    grep -qF '[  PASSED  ] 2 tests.' "$log" || { complain "not two tests"; return; }
    printf 'passed  %s\n' "$name"
}

for object in kernels kernel_loader; do
    "$cxx" -std=c++17 -O2 -Wall -Wextra -Werror -D_GLIBCXX_USE_CXX11_ABI=0 "-I$headers" \
        "-I$source_dir/bindings/sim/ascendcl/include" "-I$source_dir/core/include" "-I$examples/kernel_func" \
        "-I$examples/0_quickstart/4_custom_kernel_launch" -c "$conformance/$object.cc" -o "$scratch/$object.o" ||
        { echo "FAILED  $object.cc does not build"; exit 1; }
done

unit_tests

# The README prints commas that the program's format does not have.
sample 3_memory_advanced/allocator/0_custom_allocator but='Allocator desc queried' \
    expect='^\[INFO\]  Allocator desc queried: descOut=0x[0-9a-f]+ allocCount=2 freeCount=2$'

sample 0_quickstart/1_error_handling but='^\[ERROR\] Diagnostics' \
    expect='^\[ERROR\]  Diagnostics: ret=100000, peekErr=100000, lastErr=100000, recentErrMsg=.+'
sample 0_quickstart/4_custom_kernel_launch expect='^Sample run successfully with <<<>>> kernel call!$'
sample tools/get_soc_version sources=get_soc_version.cpp expect='^Ascend'

sample 1_basic_features/context/0_context_query

# Another chip and two devices.
sample 1_basic_features/device/1_device_multi_thread but='chipset platform|deviceCount' \
    expect='deviceCount: 1\.$' expect='^\[INFO\]  Current Ascend chipset platform is: .+\.$'
sample 1_basic_features/device/2_device_P2P devices=2

sample 1_basic_features/event/0_event_status
# The README names the long task a short one.
sample 1_basic_features/event/1_event_timestamp but='Begin a short task' \
    expect='^\[INFO\]  Begin a short task\.$' expect='^\[INFO\]  Begin a long task\.$'

sample 1_basic_features/memory/0_h2h_memory_copy
sample 1_basic_features/memory/1_h2d_sync_memory_copy
sample 1_basic_features/memory/2_h2d_async_memory_copy
sample 1_basic_features/memory/3_d2h_sync_memory_copy
sample 1_basic_features/memory/4_d2h_async_memory_copy
sample 1_basic_features/memory/5_d2d_sync_memory_copy
sample 1_basic_features/memory/6_d2d_async_memory_copy
sample 1_basic_features/memory/9_multistream_sync_memory sources='main.cpp file_ops.cpp'
# Two processes share memory here, which one simulated process cannot.
for process in proc_a proc_b; do
    sample 1_basic_features/memory/7_physical_memory_sharing_withpid sources="$process.cpp ../file_ops.cpp" run=no
    sample 1_basic_features/memory/8_physical_memory_sharing_withoutpid sources="$process.cpp ../file_ops.cpp" run=no
    sample 1_basic_features/memory/10_ipc_memory_withpid sources="$process.cpp ../file_ops.cpp" run=no
    sample 1_basic_features/memory/11_ipc_memory_withoutpid sources="$process.cpp ../file_ops.cpp" run=no
done
for process in server client; do
    sample 1_basic_features/memory/12_cross_server_physical_memory_sharing_withoutpid sources="$process.cpp" run=no
done

sample 1_basic_features/stream/0_simple_stream
# The README's device answers the wait after the stop, and that after the abort, with the error of a kernel before; and the
# vendor's documentation says that waiting for a stream of device use only does nothing.
sample 1_basic_features/stream/1_stream_with_failure_mode but='aclrtStreamStop returned|after (stop|abort)' \
    expect='aclrtStreamStop returned 0' expect='after abort\) returned 107023 after stream abort'
# Twice the program frees memory although its wait for the kernel that uses it has just timed out.
sample 1_basic_features/stream/2_multi_stream findings=2 \
    expect='aclrtSynchronizeEventWithTimeout\(event, kWaitTimeMs\) returned error code 507047$'
sample 1_basic_features/stream/3_stream_config_query but='is not exported'

sample 2_advanced_features/callback/0_simple_callback sources='main.cpp callback_sample.cpp ../callback_utils.cpp' \
    expect='the current int is: 1\.$'
sample 2_advanced_features/callback/1_callback_hostfunc sources='main.cpp ../callback_utils.cpp' \
    expect='the current result is: 1\.$'
# The error stays the thread's until the program asks for it, whatever the exception callback does meanwhile.
sample 2_advanced_features/callback/2_callback_exception \
    expect='^\[ERROR\]  Post synchronize .* peekErr=507035, lastErr=507035, recentErrMsg=.+' \
    sources='main.cpp exception_callback_sample.cpp ../callback_utils.cpp'
sample 2_advanced_features/kernel/1_launch_kernel_with_reslimit expect='^Hello World$'

sample 3_memory_advanced/host_register/0_simple_zero_copy sources='main.cpp simple_zero_copy.cpp' loader=yes
# There is no managed memory, as on many of the devices.
sample 3_memory_advanced/managed_memory/0_uvm_allocate sources='main.cpp ../file_ops.cpp' but='successfully' \
    expect='aclrtMemAllocManaged returned error code 207000'

[ $ran -gt 0 ] || { echo "no program is named like $WEIR_PROGRAM" >&2; exit 1; }
echo "$ran programs, $failed failed"
[ $failed = 0 ]
