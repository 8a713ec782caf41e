#!/usr/bin/env bash
# strategy_test.sh WEIR CXX FIRST_FIT WRONG... TRACES SCHEMA CHECKER: `weir replay --strategy` with a strategy of a shared
# object: docs/examples/first_fit.c beside caching in every form of output, exported by C and by C++, and the objects of
# strategies/wrong.c.
set -uo pipefail
weir=$1 cxx=$2 object=$3 nothing=$4 version=$5 incomplete=$6 refuses=$7 no_table=$8 foreign=$9 traces=${10}
schema=${11} checker=${12}
source "${BASH_SOURCE[0]%/*}/rig.sh"
ln -s "$object" mine.so
ln -s "$cxx" copy.so
small=$traces/ort_unet_dyn_res.wtr.xz

# First fit chooses other ranges than best fit, so its row has other figures than that of caching.
good '  caching ' replay "$small" --strategy caching,./mine.so --no-timing
grep -qE '^  first_fit +[0-9.]+ MiB +1\.[0-9]+ ' out || complain "no row of first_fit: $(cat out)"
[ "$(sed -n 's/^  first_fit *//p' out)" != "$(sed -n 's/^  caching *//p' out)" ] || complain 'first_fit is caching'
cp out slash
good '  first_fit ' replay "$small" --strategy caching,mine.so --no-timing
cmp -s slash out || complain 'a name without a slash gives another table'
good '  first_fit+vm ' replay "$small" --strategy mine.so+vm --no-timing
grep -qE '^  first_fit\+vm +[0-9.]+ MiB  1\.0' out || complain "+vm does not use virtual memory: $(cat out)"
good '  copy.so ' replay "$small" --strategy mine.so,copy.so --no-timing
[ "$(sed -n 's/^  first_fit *//p' out)" = "$(sed -n 's/^  copy.so *//p' out)" ] ||
    complain "the first of two objects with the same name lost its name, or C++ exports another strategy: $(cat out)"

# Every form of output, and with threads.
good '"strategy": "first_fit"' replay "$small" --strategy caching,mine.so --json --sweep --no-timing --check
[ "$(grep -c '"strategy": "first_fit"' out)" = 2 ] || complain 'the sweep has no row of first_fit'
if command -v python3 >/dev/null; then
    cp out one.json
    python3 "$checker" "$schema" one.json >/dev/null || complain 'the JSON does not fit its schema'
fi
good ',0,first_fit,' replay "$small" --strategy caching,mine.so --csv --no-timing
good 'report: ' replay "$small" --strategy caching,mine.so --report page.html --no-timing
grep -qF '"strategy":"first_fit"' page.html || complain 'the page has no first_fit'
for jobs in 1 2 5; do
    "$weir" replay "$small" "$traces"/ort_bert6_dyn_seq.wtr.xz --strategy mine.so,caching,mine.so+vm --sweep --no-timing \
        --jobs $jobs >jobs.$jobs || complain "--jobs $jobs: exit status $?"
done
cmp jobs.1 jobs.2 && cmp jobs.1 jobs.5 || complain 'the output depends on --jobs'

# Objects that are refused, before anything is replayed.
echo text >text.so
: >empty.so
mkdir folder.so
bad '--strategy ./nosuch.so: cannot be opened: No such file' replay "$small" --strategy caching,./nosuch.so
bad '--strategy nosuch.so: cannot be opened: No such file' replay "$small" --strategy nosuch.so
bad '--strategy text.so: cannot be loaded as a shared object: ' replay "$small" --strategy text.so
bad '--strategy ./empty.so: cannot be loaded as a shared object: ' replay "$small" --strategy ./empty.so
bad '--strategy ./folder.so: cannot be loaded as a shared object: ' replay "$small" --strategy ./folder.so
bad 'exports no strategy: it lacks the symbol weir_exported_strategy' replay "$small" --strategy "$nothing"
bad 'was built for weir ' replay "$small" --strategy "$version"
bad 'the table of its strategy has no valid alloc' replay "$small" --strategy "$incomplete"
bad 'no pool can be made with its strategy: ' replay "$small" --strategy "$refuses"
bad 'the table of its strategy has no valid claim, which "+vm" needs' replay "$small" --strategy "$refuses+vm"
bad 'its strategy has no table of functions' replay "$small" --strategy "$no_table"
bad 'is not of WEIR_STRATEGY_EXPORT' replay "$small" --strategy "$foreign"
bad "there is no strategy 'mine'" replay "$small" --strategy mine
bad 'more than 16 strategies' replay "$small" --strategy "$(printf 'mine.so,%.0s' {1..16})mine.so"
bad "$(printf '%0100d' 0)...: File name too long" replay "$small" --strategy "$(printf '%05000d' 0).so"
finish 'strategies of shared objects: replayed and refused as documented'
