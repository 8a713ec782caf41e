#!/usr/bin/env bash
# package.sh PYTHON WHEELS TESTS FAKE_CUDA SIMULATED_ACL [TEST...]: the package's own tests, from a wheel that is unpacked and not installed.
# FAKE_CUDA is a folder with a double of the CUDA driver, SIMULATED_ACL one with the simulated ACL runtime; '-': not built.
set -euo pipefail
python=$1 wheels=$2 tests=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "skipped: no Python 3.9"; exit 77; }
"$python" -m zipfile -e "$(ls "$wheels"/weir-*.whl)" "$scratch"
chmod +x "$scratch"/weir/_prefix/bin/weir
for module in "$scratch"/weir/*.py; do # those beside the tests, in which a bug of tests/project/mutants may be
    cp "$tests/../../bindings/python/weir/${module##*/}" "$module"
done
cd "$scratch"
export PYTHONPATH=$scratch PYTHONDONTWRITEBYTECODE=1 FAKE_CUDA=${4:-} SIMULATED_ACL=${5:-}
unset LD_PRELOAD
exec "$python" -X dev -W error "$tests/package_test.py" -q "${@:6}"
