#!/usr/bin/env bash
# Stands for the test of an engine that is not installed.    absent.sh WHY
echo "skipped: $1"
exit 77
