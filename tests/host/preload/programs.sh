#!/usr/bin/env bash
# programs.sh LIBRARY CC: programs of the system run on a weir heap in the place of malloc. Each does the same as without
# it; no free is refused, and the heap's check is clean at the end of each process.
set -uo pipefail
library=$1 cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export HOME=$work WEIR_PRELOAD_REPORT=$work/report GIT_CONFIG_NOSYSTEM=1
failures=0 programs=0

# same NAME COMMAND...: the command prints the same and ends the same with the library. Skipped if there is no such program.
same() {
    local name=$1 plain=0 status=0
    shift
    command -v "$1" >/dev/null || { echo "$name: not here"; return; }
    programs=$((programs + 1))
    rm -rf folder && mkdir folder
    (cd folder && exec "$@") >plain 2>&1 </dev/null || plain=$?
    rm -rf folder && mkdir folder
    (cd folder && LD_PRELOAD=$library exec timeout 300 "$@") >out 2>&1 </dev/null || status=$?
    if [ $status != $plain ] || ! cmp -s plain out; then
        echo "FAILED: $name: exit status $status, not $plain: $(head -c 1000 out)"
        failures=$((failures + 1))
    fi
}

cat >words.py <<'END'
import json, threading, os, hashlib
def work(seed):
    table = {}
    for i in range(8000):
        table[f"{seed}-{i * 7919 % 5003}"] = [i] * (i % 40)
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
results = [None] * 4
def run(i):
    results[i] = work(i)
threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(results)
for i in range(5):
    child = os.fork()
    if child == 0:
        print(work(i) == results[i] if i < 4 else len(results), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
END
cat >rows.sql <<'END'
create table t(a integer primary key, b text, c blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
insert into t select i, hex(i * 7919 % 104729), zeroblob(i % 700) from n;
create index x on t(b);
select count(*), sum(length(c)), max(b) from t where b > '5';
delete from t where a % 3 = 0;
select count(*), group_concat(b) from (select b from t order by b limit 50);
END
cat >work.js <<'END'
const map = new Map();
for (let i = 0; i < 80000; i++) map.set('k' + (i * 7919) % 50021, Buffer.alloc(i % 3000));
let sum = 0;
for (const value of map.values()) sum += value.length;
console.log(map.size, sum, JSON.parse(JSON.stringify([...map.keys()].slice(0, 1000))).length);
END
cat >unit.c <<'END'
#include <stdio.h>
#define F(n) static int f##n(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * n ^ (s >> 3); return s; }
#define TEN(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7) F(n##8) F(n##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
int main(void) { printf("%d\n", f10(9) + f55(7) + f99(3)); return 0; }
END

export PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PYTHONMALLOC=malloc
same python3 python3 ../words.py
same sqlite3 sqlite3 -init ../rows.sql rows.db .quit
same node node ../work.js
same git bash -c 'git init -q . && for i in 1 2 3 4 5; do seq 1 $((i * 3000)) >file$i; git add . ; git -c user.name=a -c user.email=a@b \
    commit -q -m "$i" --date=2026-01-01T00:00:00Z; done; git gc -q; git log --stat --format=%s; git fsck 2>&1; git diff HEAD~3 | sha256sum'
same sort bash -c 'seq 1 100000 | sort -R --random-source=/etc/passwd | sort -n --parallel=4 | sha256sum'
same grep bash -c 'seq 1 100000 | grep -E "(1|2)+3[4-7]*9" | sha256sum'
same sh sh -c 'for i in 1 2 3; do (x=$(seq 1 $i); echo "$x" | sed s/1/one/ | tr a-z A-Z) & wait; done'
same cc bash -c '"$0" -O2 -g ../unit.c -o unit && ./unit && cksum <unit' "$cc"

[ $programs -ge 2 ] || { echo "skipped: none of these programs is here"; exit 77; }
awk '/at the peak.*live and/ { processes++ }
    / blocks, the largest of/ { blocks += $2 }
    /broken/ { print "FAILED: " $0; bad = 1 }
    END { print processes " reports, " blocks " blocks"; exit bad || blocks < 1000000 }' report || failures=$((failures + 1))
exit $((failures > 0))
