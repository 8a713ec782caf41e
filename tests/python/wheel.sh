#!/usr/bin/env bash
# wheel.sh PYTHON SOURCE: script/pack wheel builds a wheel for other machines, and pip installs it in an empty environment without a
# network. The package and the command of the environment work.
set -euo pipefail
python=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m venv "$scratch/env" >"$scratch/log" 2>&1 || { echo "skipped: $(tail -n 1 "$scratch/log")"; exit 77; }
wheel=$source/$(bash "$source/script/pack" wheel)
"$scratch/env/bin/pip" install --quiet --no-index "$wheel"
cd "$scratch"
for program in heap_arrays pool_blocks compare; do
    env/bin/python "$source/docs/examples/$program.py"
done
env/bin/weir run -q -- env/bin/python -c 'import weir; print(weir.__version__)'
env/bin/weir info --list | wc -l
env/bin/pip uninstall --quiet --yes weir
[ ! -e env/bin/weir ] && [ -z "$(find env -path '*site-packages/weir*')" ] || { echo "FAILED: something is left"; exit 1; }
