#!/bin/sh
# deploy/lock.sh: compile pyproject.toml into requirements.txt (runtime) and requirements-dev.txt (runtime and tools).
# One lock for every platform and every Python from 3.11 on, with hashes. Pinned versions stay unless ARGS=--upgrade.
set -eu

tool=${VENV:-.venv}/lock # uv is needed here only, so it stays out of the project's own environment
[ -x "$tool/bin/uv" ] || { "${VENV:-.venv}/bin/python" -m venv "$tool" && "$tool/bin/pip" install -qq 'uv==0.13.9'; }

compile() {
  # shellcheck disable=SC2086 # ARGS is a list of words
  "$tool/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header ${ARGS:-} "$@"
}
compile pyproject.toml --output-file requirements.txt
compile pyproject.toml --group dev --constraint requirements.txt --output-file requirements-dev.txt
echo "locked: $(grep -c '==' requirements.txt) packages to run, $(grep -c '==' requirements-dev.txt) to develop"
