#!/bin/sh
# deploy/audit.sh: ask the Python advisory database about every locked package. Exit code 1 when it knows of a hole in
# one, and when it could not be asked.
set -eu

tool=${VENV:-.venv}/audit # needed here only, so it stays out of the project's own environment
[ -x "$tool/bin/pip-audit" ] || { "$BIN/python" -m venv "$tool" && "$tool/bin/pip" install -qq 'pip-audit==2.10.1'; }

code=0
said=$("$tool/bin/pip-audit" --disable-pip --require-hashes --progress-spinner off --requirement requirements-dev.txt 2>&1) || code=$?
locked=$(grep -c '==' requirements-dev.txt)
skipped=$(echo "$said" | grep -c 'could not be audited' || true)
case $said in
  *ConnectionError*) skipped=$locked ;;
esac
# Packages for other systems than this one are neither asked about nor skipped, so "nearly all" has to do for "all".
if [ $((skipped * 2)) -gt "$locked" ]; then
  echo "make audit: the advisory database on pypi.org cannot be reached from here; nothing was audited" >&2
  exit 1
fi
echo "$said"
exit "$code"
