#!/usr/bin/env bash
# graphs_test.sh WEIR PROGRAM TRACES: the recordings of captured graphs that are shipped with weir are those of PROGRAM
# (ascend_graphs), and a replay of each predicts to a handle of the device what its capture pool reports.
set -uo pipefail
weir=$1 program=$2 traces=$3
source "${BASH_SOURCE[0]%/*}/rig.sh"
export WEIR_ASCENDCL_REPORT=none WEIR_ASCENDCL_EXIT_CODE=1 # the auditor judges each launch

# lines FILE: the events of blocks and graphs, without times and addresses, which differ from run to run, as does the
# order in which the pool asks for events of the device.
lines() { grep -v '^[#ey]' "$1" | sed -E 's/^([a-z]) [0-9]+/\1/; s/ addr=0x[0-9a-f]+//'; }

for what in decode sessions; do
    "$program" $what >told || complain "$program $what fails"
    live=$(grep -oE '[0-9]+ bytes' told | cut -d' ' -f1)
    "$weir" replay "$traces/graphs_$what.wtr.xz" --strategy caching+vm --no-timing --csv >csv || complain "no replay of $what"
    predicted=$(sed -n 2p csv | cut -d, -f23) # the first row
    off=$((live > predicted ? live - predicted : predicted - live))
    echo "$what: $live bytes, predicted $predicted"
    [ $off -lt 2097152 ] || complain "$what: the prediction is $off bytes off"

    "$program" $what made.wtr >/dev/null || complain "$program $what cannot be recorded"
    xz -dc "$traces/graphs_$what.wtr.xz" >shipped.wtr
    diff <(lines made.wtr) <(lines shipped.wtr) >differences || complain "$what: another recording: $(head -n 5 differences)"
done

finish 'the graphs need what was predicted'
