#!/usr/bin/env bash
# install.sh VENV PYTHON REQUIREMENTS [DISTRIBUTION...]: a virtual environment that holds exactly the pinned
# REQUIREMENTS and, editable, our DISTRIBUTIONS. Leaves VENV/.installed, which make compares times with.
set -euo pipefail

venv=$1 python=$2 requirements=$3
shift 3

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "install: $("$python" -V 2>&1) is too old, 3.11 or newer is needed: make install PYTHON=python3.13" >&2
  exit 1
}
pip() { "$venv/bin/python" -m pip -qq --disable-pip-version-check "$@"; } # errors only

echo "install: $venv from $requirements with $("$python" -V)"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip install --no-deps -r requirements/build.txt
pip install --no-deps --no-build-isolation $(printf -- '-r %s ' $requirements)
if (($#)); then
  echo "install: $* (editable)"
  pip install --no-deps --no-build-isolation $(printf -- '-e %s ' "$@")
fi
touch "$venv/.installed"
