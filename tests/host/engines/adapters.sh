#!/usr/bin/env bash
# adapters.sh ROOT LIBRARY: the adapter for Python, over the shared libweir.
set -uo pipefail
root=$1 library=$(dirname "$2")
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
export LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/bindings/host/engines/adapters
exec python3 "$root/tests/host/engines/adapters_python.py"
