#!/usr/bin/env bash
# page_test.sh WEIR TRACES: the page of `weir replay --report` in a browser: it opens without an error, shows the figures
# of --json, and does not scroll sideways on a narrow screen.
set -uo pipefail
weir=$1 traces=$2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    { echo 'skipped: no chromium'; exit 77; }
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

complain() { echo "FAILED: $1"; failures=$((failures + 1)); }

# opened PAGE: prints the document after its scripts have run. A sandbox of the browser's own is not to be had as root or
# in a container.
opened() {
    HOME=$work timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$work/profile" --virtual-time-budget=20000 --dump-dom "file://$work/$1" 2>browser.log
}

"$weir" replay "$traces/ort_unet_dyn_res.wtr.xz" --strategy caching+vm,caching --report page.html --json --no-timing >page.json ||
    complain 'no report'

# The page gets a script that notes errors and, in a frame as wide as a telephone, whether it is wider than its frame.
python3 - <<'END'
watch = """<script>
addEventListener("error", event => { document.documentElement.dataset.error = event.message; });
addEventListener("load", () => setTimeout(() => {
    const wide = document.documentElement.scrollWidth > innerWidth;
    document.documentElement.dataset.wide = wide;
    parent.postMessage({ wide, width: innerWidth, text: document.body.textContent.length }, "*");
}, 3000));
</script>"""
with open("page.html", encoding="utf-8") as file:
    page = file.read()
with open("watched.html", "w", encoding="utf-8") as file:
    file.write(page.replace("<head>", "<head>" + watch, 1))
with open("narrow.html", "w", encoding="utf-8") as file:
    file.write("""<!doctype html><html><body><script>
addEventListener("message", event => Object.assign(document.documentElement.dataset, event.data));
</script><iframe src="watched.html" width="390" height="800" style="border:0"></iframe></body></html>""")
END

opened watched.html >wide.dom
opened narrow.html >narrow.dom
if ! grep -q 'data-wide=' wide.dom; then
    cat browser.log
    complain 'the browser did not open the page'
fi
grep -qE '<html[^>]* data-error=' wide.dom && complain "an error: $(grep -oE 'data-error="[^"]*"' wide.dom | head -n 1)"
grep -qE '<html[^>]* data-wide="false"[^>]* data-width="390"' narrow.dom ||
    complain "390 pixels are too few: $(grep -oE '<html[^>]*>' narrow.dom | head -n 1)"

# The page begins at the worst event of the first strategy. Its numbers there are those of --json.
python3 - <<'END' || complain 'the page and --json differ'
import html
import json
import re
import sys

with open("page.json", encoding="utf-8") as file:
    row = json.load(file)["results"][0]
with open("wide.dom", encoding="utf-8") as file:
    text = re.sub(r"<(script|style).*?</\1>", "", file.read(), flags=re.S)
text = re.sub(r"(\|\s*)+", "|", html.unescape(re.sub(r"<[^>]+>", "|", text)))


def shown(name):
    number, unit = re.search(re.escape(name) + r"\|([0-9.]+) ([KMG]?i?B|%)", text).groups()
    return float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "%": 0.01}[unit]


status = 0
for name, value in [("Reserved", row["peak_reserved_bytes"]), ("Free", row["free_bytes"]),
                    ("Largest free range", row["largest_free_bytes"]),
                    ("External fragmentation", 1 - row["largest_free_bytes"] / row["free_bytes"])]:
    if abs(shown(name) - value) > 0.01 * value:
        print(f"{name}: the page has {shown(name)}, --json has {value}")
        status = 1
sys.exit(status)
END

# The holders of memory at that event, whole call stacks, and tags of the same text as one.
cat >tags.wtr <<'END'
#wtr 1
@0 model.py:forward:10
#stack 0 model.py:10:forward
#stack 0 train.py:3:main
@1 model.py:forward:10
#stack 1 model.py:10:forward
#stack 1 eval.py:7:main
@2 optimizer
a 0 0 3145728 0 0 @0
a 1 1 1048576 0 0 @1
a 2 2 2097152 0 0 @2
f 3 1 0 0
END
"$weir" replay tags.wtr --strategy direct --report tags.html >/dev/null || complain 'no report of tags'
opened tags.html | python3 -c '
import re, sys
text = re.sub(r"<(script|style).*?</\1>", "", sys.stdin.read(), flags=re.S)
print(re.sub(r"(\|\s*)+", "|", re.sub(r"<[^>]+>", "|", text)))' >tags.txt
grep -qF '|model.py:forward:10|4 MiB|66.7 %|2|optimizer|2 MiB|33.3 %|1|' tags.txt || complain 'the holders are not those of the event'
grep -qF '"stacks":["model.py:10:forward\ntrain.py:3:main",' tags.html || complain 'the page has no call stacks'

[ $failures = 0 ] && echo 'page: opens, agrees with --json, fits a narrow screen'
exit $((failures > 0))
