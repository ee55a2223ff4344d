#!/usr/bin/env bash
# install.sh VENV PYTHON REQUIREMENTS [DISTRIBUTION...]: a virtual environment that holds exactly the pinned
# REQUIREMENTS and, editable, our DISTRIBUTIONS. Leaves VENV/.installed, which make compares times with.
# Where the machine has uv, that installs: it downloads at once what pip downloads one by one. Where it cannot, for
# example because only pip is told of a mirror, pip does.
set -euo pipefail

venv=$1 python=$2 requirements=$3
shift 3

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "install: $("$python" -V 2>&1) is too old, 3.11 or newer is needed: make install PYTHON=python3.13" >&2
  exit 1
}
add() { # errors only
  if command -v uv >/dev/null && uv pip install --quiet --python "$venv/bin/python" --no-deps "$@"; then return; fi
  "$venv/bin/python" -m pip -qq --disable-pip-version-check install --no-deps "$@"
}

echo "install: $venv from $requirements with $("$python" -V) by $(command -v uv || echo pip)"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
add -r requirements/build.txt
add --no-build-isolation $(printf -- '-r %s ' $requirements)
if (($#)); then
  echo "install: $* (editable)"
  add --no-build-isolation $(printf -- '-e %s ' "$@")
fi
touch "$venv/.installed"
