#!/bin/sh
# deploy/venv.sh LOCKFILE: make $VENV (.venv) hold what LOCKFILE pins. Nothing is done when it already does.
# PYTHON names the interpreter; unset, the first of the usual names that is new enough and complete is taken.
set -eu

lock=${1:?usage: deploy/venv.sh LOCKFILE}
venv=${VENV:-.venv}
needs='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'

find_python() {
  if [ -n "${PYTHON:-}" ]; then
    "$PYTHON" -c "$needs" 2>/dev/null && { echo "$PYTHON"; return; }
    echo "PYTHON=$PYTHON: must be Python 3.11 or newer with pip and venv" >&2
    exit 1
  fi
  for name in python3 python python3.13 python3.12 python3.14 python3.11; do
    "$name" -c "$needs" 2>/dev/null && { echo "$name"; return; }
  done
  echo "No Python 3.11 or newer with pip and venv was found." >&2
  echo "Install one (Debian and Ubuntu: apt install python3 python3-venv; Fedora: dnf install python3; macOS: brew install python)" >&2
  echo "or name yours: make PYTHON=/path/to/python3 venv" >&2
  exit 1
}

# A checksum of the lock files, not their dates: a clone or a checkout changes dates only.
checksum() { cksum < "$1"; }

# The development lock holds the runtime lock too, so it answers for both.
for have in "$lock" requirements-dev.txt; do
  stamp=$venv/.installed-$have
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(checksum "$have")" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    exit 0
  fi
done

if ! "$venv/bin/python" -c '' 2>/dev/null; then
  python=$(find_python)
  echo "making $venv with $("$python" --version)"
  "$python" -m venv --clear "$venv"
fi
echo "installing $lock into $venv"
PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install -qq --require-hashes --requirement "$lock"
checksum "$lock" > "$venv/.installed-$lock"
