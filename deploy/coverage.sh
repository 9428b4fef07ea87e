#!/bin/sh
# deploy/coverage.sh PYTEST-ARGUMENTS: the tests with branch coverage of all processes they start, and a table of the
# four rooms that matter most. Processes that are killed (-9) leave nothing behind, so what only they ran is
# missing; so are slow tests (a Redis Cluster, ...) unless ARGS says -m ''.
set -eu

rm -rf .coverage_data
mkdir .coverage_data
code=0
# One test counts what an import costs, and coverage imports more.
"$BIN/python" -m coverage run -m pytest --deselect tests/unit/test_canonical_fingerprint.py::test_the_package_itself_costs_nothing "$@" || code=$?
"$BIN/python" -m coverage combine --quiet
for room in canonical dedup frontier metrics; do
  printf '%-10s %s %%\n' "$room" "$("$BIN/python" -m coverage report --include "crawler/$room/*" --format total --precision 1)"
done
"$BIN/python" -m coverage report --skip-covered --show-missing --include 'crawler/canonical/*,crawler/dedup/*,crawler/frontier/*,crawler/metrics/*' --fail-under 95
exit "$code"
