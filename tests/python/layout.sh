#!/usr/bin/env bash
# layout.sh PYTHON WHEELS SOURCE CC: the structs and functions of weir/_c.py are those of the headers.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" -m zipfile -e "$(ls "$2"/weir-*.whl)" "$scratch"
PYTHONPATH=$scratch PYTHONDONTWRITEBYTECODE=1 exec "$1" "$3/tests/python/layout.py" "$3" "$4" "$scratch"
