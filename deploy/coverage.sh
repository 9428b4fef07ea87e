#!/bin/sh
# deploy/coverage.sh PYTEST-ARGUMENTS: the tests with branch coverage of all processes they start, and a table of the
# four rooms that matter most. Processes that are killed (-9) leave nothing behind, so what only they ran is missing.
set -eu

rm -rf .coverage_data
mkdir .coverage_data
code=0
"$BIN/python" -m coverage run -m pytest "$@" || code=$?
"$BIN/python" -m coverage combine --quiet
for room in canonical dedup frontier metrics; do
  printf '%-10s %s %%\n' "$room" "$("$BIN/python" -m coverage report --include "crawler/$room/*" --format total --precision 1)"
done
"$BIN/python" -m coverage report --skip-covered --show-missing --include 'crawler/canonical/*,crawler/dedup/*,crawler/frontier/*,crawler/metrics/*' --fail-under 95
exit "$code"
