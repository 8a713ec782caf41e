#!/usr/bin/env bash
# Takes the place of the test of an engine that is not installed: skips with a reason.    absent.sh REASON
echo "skipped: $1"
exit 77
