#!/usr/bin/env bash
# adapters.sh LANGUAGE ROOT LIBRARY: the adapter for a language, over the shared libweir.
set -uo pipefail
language=$1 root=$2 library=$(dirname "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
case $language in
python)
    command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/bindings/host/engines/adapters python3 "$root/tests/host/engines/adapters_python.py"
    ;;
rust)
    command -v rustc >/dev/null && rustc --version >/dev/null 2>&1 || { echo 'skipped: no rustc'; exit 77; }
    rustc -O -L "$library" -l weir -o "$work/program" "$root/tests/host/engines/adapters_rust.rs" && "$work/program"
    ;;
esac
