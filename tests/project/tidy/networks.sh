#!/usr/bin/env bash
# The project's networks are exactly the output of their generator.    networks.sh SOURCE_DIR
set -euo pipefail
cd "$1/benchmarks/networks"
for network in resnet50 mobilenet_v2; do
    ./generate.sh $network | diff -u $network.param - || { echo "$network.param is not what generate.sh writes" >&2; exit 1; }
done
echo "the networks are what their generator writes"
