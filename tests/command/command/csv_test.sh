#!/usr/bin/env bash
# csv_test.sh WEIR: info, replay and import on the CSV files of other programs, plain and packed, and on CSV that weir does
# not know.
set -uo pipefail
weir=$1
source "${BASH_SOURCE[0]%/*}/rig.sh"

# The names tell nothing about the formats.
{
    printf 'Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),'
    printf 'Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),'
    printf 'Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type\r\n'
    printf 'aten::mul,2048.0,1736412474720984.920\t,1736412474720990.000\t,,5.080\t,,2.0,4.0,2.0,0.0,4.0,0.0,77,NPU:0\r\n'
    printf 'aten::add,1024.0,1736412474720986.000\t,,,,,3.0,4.0,3.0,,,,77,NPU:0\r\n'
} >operator
{
    printf 'Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type\n'
    printf 'PTA,1736412474720984.920\t,2.0,4.0,2.0,77,NPU:0\n'
} >record
{
    printf 'ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n'
    printf '1,MALLOC,PTA,N/A,1764753365728889760,9,9,0,4096,"{addr:4096,size:1048576,owner:PTA,total:2097152,used:1048576}",,\n'
    printf '2,FREE,PTA,N/A,1764753365728889770,9,9,0,4096,"{addr:4096,size:1048576,owner:PTA,total:2097152,used:0}",,\n'
} >memscope
{
    printf 'Thread,Time,Action,Pointer,Size,Stream\n'
    printf '1401,10:20:30.000100,allocate,0x7f32a8000000,1048576,0x0\n'
    printf '1401,10:20:30.000105,allocate failure,0x0,4194304,0x0\n'
    printf '1401,10:20:30.000205,free,0x7f32a8000000,1048576,0x0\n'
} >rmm
printf 'id,lower,upper,size\nb1,0,3,1048576\nb2,3,9,2097152\nb3,0,9,4096\n' >plan
gzip -c rmm >rmm.gz
xz -c plan >plan.xz

good 'source     torch_npu operator_memory.csv' info operator
good 'no addresses, threads or segments' info operator
good 'peak live  3.00 MiB' info operator
good 'source     torch_npu memory_record.csv' info record
good 'operator_memory.csv of the same folder has the blocks' info record
good 'source     msMemScope' info memscope
good 'the file names no streams' info memscope
good 'source     RMM log' info rmm
good 'which streams use a block' info rmm
good 'source     MiniMalloc CSV' info plan
good 'a plan in logical time' info plan
good 'source     RMM log' info rmm.gz
good 'source     MiniMalloc CSV' info plan.xz

for file in operator memscope rmm rmm.gz plan plan.xz; do
    good 'caching' replay "$file"
    good 'strategy' replay "$file" --strategy caching,pytorch,direct --check
    "$weir" import -q "$file" -o "$file.wtr" || complain "weir import $file"
    "$weir" info "$file" | tail -n +2 >first
    "$weir" info "$file.wtr" | tail -n +2 >second
    cmp -s first second || complain "$file: the imported trace differs: $(diff first second)"
done
# The totals of a file are the row of the recorded allocator; calls and places of free memory are not known.
good '  recorded         4.00 MiB  1.333            -              -         -       -          -       -       -' \
    replay operator --strategy caching --no-timing
"$weir" replay operator --strategy caching --no-timing --json >out || complain 'no JSON of totals'
for member in device_calls device_calls_after_peak largest_free_bytes; do
    [ "$(awk '/"strategy": "recorded"/ { on = 1 } on && /"'$member'"/ { print; exit }' out)" = "      \"$member\": null," ] ||
        complain "the JSON of totals knows $member"
done
[ "$("$weir" replay operator --strategy caching --csv | awk -F, '$3 == "recorded" { print $6, $8, $9, $12, $13 }')" = \
    '4194304  1048576  ' ] || complain 'the CSV of totals'
good 'it asked for 4.00 MiB; how much was free is not recorded' replay rmm

"$weir" import -q record -o record.wtr || complain "weir import record"
bad 'record: has totals over time and no blocks, so there is nothing to replay' replay record
bad 'record.wtr: has totals over time and no blocks, so there is nothing to replay' replay record.wtr
cp plan 'a "name"'
good '"a ""name""",0,caching,' replay 'a "name"' -q -s caching --csv
good '"a ""name""",0,"pytorch[expandable_segments:True,roundup_power2_divisions:[1:2,>:4]]",' \
    replay 'a "name"' -q --csv \
    -s 'pytorch[expandable_segments:True,roundup_power2_divisions:[1:2,>:4]],torch_npu[page_size:1g]'
printf 'time,value\n1,2\n' >other
bad 'other: is CSV with 2 columns that weir does not know (time,value); known are operator_memory.csv' replay other
printf 'id,lower,upper,size\nb1,0,3,big\n' >wrong
bad 'wrong:2: field 4 (size): expected a number of bytes, got "big"' info wrong
bad 'wrong:2: field 4 (size)' import wrong
head -c 20 plan.xz >cut.xz
bad 'cut.xz' info cut.xz
finish 'CSV: as documented'
