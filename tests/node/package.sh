#!/usr/bin/env bash
# package.sh FILE TESTS PREPARED: installs the packed FILE by npm in an empty folder, without a network, and runs the package's
# tests there. PREPARED is a folder for npm's cache.
set -euo pipefail
file=$1 tests=$2 cache=$3
command -v node >/dev/null && command -v npm >/dev/null || { echo 'skipped: no node, or no npm'; exit 77; }
node -e 'process.exit(process.versions.node.split(".")[0] < 18 ? 1 : 0)' || { echo 'skipped: node is older than 18'; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset LD_PRELOAD NODE_OPTIONS
cd "$scratch"
npm install --silent --offline --no-audit --no-fund --cache "$cache" "$file"
[ -x node_modules/.bin/weir ] || { echo 'FAILED: npm made no command'; exit 1; }
cp "$tests/package_test.js" .
node --test package_test.js
npm uninstall --silent --offline --no-audit --no-fund --cache "$cache" weir
[ ! -e node_modules/weir ] && [ ! -e node_modules/.bin/weir ] || { echo 'FAILED: something is left'; exit 1; }
