#!/bin/sh
# deploy/audit.sh: ask an advisory database about every locked package: PyPI's own, or OSV where PyPI does not answer (a
# mirror of packages has no advisories). Exit code 1 when it knows of a hole in one, and when none could be asked.
set -eu

tool=${VENV:-.venv}/audit # needed here only, so it stays out of the project's own environment
audit="$tool/bin/python -m pip_audit" # not its script, which breaks when the folder is moved
$audit --version >/dev/null 2>&1 || { "$BIN/python" -m venv --clear "$tool" && "$tool/bin/pip" install -qq 'pip-audit==2.10.1'; }

locked=$(grep -c '==' requirements-dev.txt)
for database in pypi osv; do
  code=0
  said=$($audit --vulnerability-service "$database" --disable-pip --require-hashes --progress-spinner off --requirement requirements-dev.txt 2>&1) || code=$?
  skipped=$(echo "$said" | grep -c 'could not be audited' || true)
  case $said in
    *ConnectionError* | *ServiceError*) skipped=$locked ;;
  esac
  # Packages for other systems than this one are neither asked about nor skipped, so "nearly all" has to do for "all".
  [ $((skipped * 2)) -gt "$locked" ] && continue
  echo "$said"
  exit "$code"
done
echo "make audit: neither pypi.org nor api.osv.dev answers from here; nothing was audited: run it where the internet can be reached" >&2
exit 1
