#!/usr/bin/env python3
"""Programs of the system with other mallocs in the place of their own: processor time, peak resident memory, same output.

    benchmarks/programs/measure.py [--rounds N] [--library FILE] [PROGRAM...]

Each round runs each program once with each malloc, one after another, so that a busy machine slows all alike; the table has
medians. `own` is the program's malloc: glibc's, redis has Debian's jemalloc. Memory is that of the largest process of the
program. A malloc or a program that is not installed is left out and named. Exit status 1 if an output differs.
"""
import argparse
import hashlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(HERE, "../../build/release/lib/weir/libweir_preload.so")
SYSTEM = "/usr/lib/x86_64-linux-gnu"
MALLOCS = {
    "jemalloc": f"{SYSTEM}/libjemalloc.so.2",
    "mimalloc": f"{SYSTEM}/libmimalloc.so.2.0",
    "tcmalloc": f"{SYSTEM}/libtcmalloc_minimal.so.4",
}

PYTHON = """
import json, hashlib, threading
def work(seed, results):
    table = {}
    for i in range(150000):
        table[f"{seed}-{i * 7919 % 50021}"] = [i] * (i % 40)
    results[seed] = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
results = {}
threads = [threading.Thread(target=work, args=(i, results)) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(results.items()))
"""
NODE = """
const map = new Map();
for (let i = 0; i < 400000; i++) map.set('k' + (i * 7919) % 50021, Buffer.alloc(i % 6000));
let sum = 0;
for (const value of map.values()) sum += value.length;
console.log(map.size, sum, JSON.parse(JSON.stringify([...map.keys()].slice(0, 10000))).length);
"""
SQL = """
create table t(a integer primary key, b text, c blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
insert into t select i, hex(i * 7919 % 104729), zeroblob(i % 700) from n;
create index x on t(b);
select count(*), sum(length(c)), max(b) from t where b > '5';
delete from t where a % 3 = 0;
select count(*), group_concat(b) from (select b from t order by b limit 50);
"""
GIT = """git init -q . && for i in 1 2 3 4 5 6; do seq 1 $((i * 20000)) >file$i; git add .
git -c user.name=a -c user.email=a@b commit -q -m "$i" --date=2026-01-01T00:00:00Z; done
git gc -q && git log --stat --format=%s && git fsck 2>&1 && git diff HEAD~3 | sha256sum"""
C = "".join(f"static int f{n}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {n} ^ (s >> 3); return s; }}\n"
            for n in range(600)) + "int main(void) { return f5(9) + f599(3) + " + \
    " + ".join(f"f{n}({n})" for n in range(598)) + "; }\n"
JAVA = """import java.util.*;
public class Work { public static void main(String[] a) { Map<String, byte[]> m = new HashMap<>();
for (int i = 0; i < 300000; i++) m.put("k" + (i * 7919 % 50021), new byte[i % 3000]);
long s = 0; for (byte[] b : m.values()) s += b.length; System.out.println(m.size() + " " + s); } }
"""
REDIS = """for i = 1, 300000 do redis.call('set', 'k' .. (i * 7919 % 100003), string.rep('x', i % 900)) end
for i = 1, 100000 do redis.call('hset', 'h' .. (i % 2000), i, i * 3) end
local n = 0 for i = 1, 100003, 7 do n = n + redis.call('strlen', 'k' .. i) end
return {redis.call('dbsize'), n}"""
# The server alone runs with the malloc. redis-cli and the shell do not.
REDIS_SHELL = """LD_PRELOAD=$MALLOC redis-server --port 0 --unixsocket "$PWD/s" --save '' --daemonize no >/dev/null 2>&1 &
while ! redis-cli -s "$PWD/s" ping >/dev/null 2>&1; do sleep 0.05; done
redis-cli -s "$PWD/s" --eval work.lua; redis-cli -s "$PWD/s" flushall; redis-cli -s "$PWD/s" --eval work.lua
redis-cli -s "$PWD/s" shutdown nosave; wait"""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
OPENSSL = f"""for i in 1 2 3 4 5 6; do openssl crl2pkcs7 -nocrl -certfile {CERTIFICATES} |
openssl pkcs7 -print_certs -text -noout | sha256sum; done"""

# name: (the program that must be there, files, command, whether the command itself sets LD_PRELOAD)
PROGRAMS = {
    "python3": ("/usr/bin/python3", {"w.py": PYTHON}, ["/usr/bin/python3", "w.py"], False),
    "python3, malloc only": ("/usr/bin/python3", {"w.py": PYTHON}, ["env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "w.py"],
                             False),
    "node": ("node", {"w.js": NODE}, ["node", "w.js"], False),
    "git": ("git", {}, ["sh", "-c", GIT], False),
    "sqlite3": ("sqlite3", {"w.sql": SQL}, ["sqlite3", "-init", "w.sql", ":memory:", ".quit"], False),
    "redis": ("redis-server", {"work.lua": REDIS}, ["sh", "-c", REDIS_SHELL], True),
    "ffmpeg": ("ffmpeg", {}, ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=duration=6:size=640x360:rate=25", "-c:v",
                              "mpeg4", "-threads", "2", "-f", "framemd5", "-"], False),
    "gcc": ("gcc", {"w.c": C}, ["sh", "-c", "gcc -O2 -g -fdebug-prefix-map=$PWD=. -c w.c -o w.o && cksum w.o"], False),
    "openssl": ("openssl", {}, ["sh", "-c", OPENSSL], False),
    "java": ("javac", {"Work.java": JAVA}, ["sh", "-c", "javac Work.java && java -Xmx512m Work"], False),
}


def child(command, folder, environment, report):
    """Runs the command in a process of its own, so that the figures are those of this command's processes alone."""
    result = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    digest = hashlib.sha256(result.stdout).hexdigest()
    os.write(report, f"{result.returncode} {digest} {used.ru_utime + used.ru_stime} {used.ru_maxrss}".encode())
    if os.environ.get("VERBOSE"):
        sys.stderr.write(result.stdout.decode(errors="replace")[:2000])
    os._exit(0)


def measure(name, library):
    """Returns (what it printed and its exit status, seconds, MiB)."""
    _, files, command, sets_itself = PROGRAMS[name]
    environment = dict(os.environ, HOME="/nonexistent", GIT_CONFIG_NOSYSTEM="1", PYTHONHASHSEED="0", LC_ALL="C",
                       GIT_COMMITTER_DATE="2026-01-01T00:00:00Z", PYTHONDONTWRITEBYTECODE="1", MALLOC=library)
    environment.pop("LD_PRELOAD", None)
    if library and not sets_itself:
        environment["LD_PRELOAD"] = library
    with tempfile.TemporaryDirectory() as folder:
        for file, text in files.items():
            with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
                out.write(text)
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            child(command, folder, environment, writing)
        os.close(writing)
        os.waitpid(process, 0)
        status, digest, seconds, kilobytes = os.read(reading, 1000).decode().split()
        os.close(reading)
    return (digest, status), float(seconds), int(kilobytes) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--library", default=LIBRARY)
    parser.add_argument("programs", nargs="*")
    settings = parser.parse_args()
    mallocs = {"own": "", "weir": os.path.abspath(settings.library), **MALLOCS}
    if not os.path.exists(mallocs["weir"]):
        sys.exit(f"{mallocs['weir']} is not built (target weir_preload)")
    missing = [name for name, path in mallocs.items() if path and not os.path.exists(path)]
    for name in missing:
        del mallocs[name]
    names = settings.programs or list(PROGRAMS)
    missing += [name for name in names if shutil.which(PROGRAMS[name][0]) is None]
    names = [name for name in names if name not in missing]
    runs = {(name, malloc): [] for name in names for malloc in mallocs}
    for _ in range(settings.rounds):
        for name in names:
            for malloc, path in mallocs.items():
                runs[name, malloc].append(measure(name, path))
    print("| program |" + "".join(f" {malloc}: s | MiB |" for malloc in mallocs))
    print("| --- |" + " ---: | ---: |" * len(mallocs))
    differs = False
    for name in names:
        cells = ""
        for malloc in mallocs:
            seconds = statistics.median(run[1] for run in runs[name, malloc])
            mib = statistics.median(run[2] for run in runs[name, malloc])
            wrong = {run[0] for run in runs[name, malloc]} != {runs[name, "own"][0][0]}
            differs = differs or wrong
            cells += f" {seconds:.2f}{' (other output)' if wrong else ''} | {mib:.0f} |"
        print(f"| {name} |{cells}")
    if missing:
        print("not installed:", ", ".join(missing))
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
