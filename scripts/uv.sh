#!/usr/bin/env bash
# Prints the path of uv, which it first puts into a virtual environment of its own where that is not there yet.
set -euo pipefail

venv=.venvs/uv
[ -x "$venv/bin/uv" ] || {
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip -qq --disable-pip-version-check install --no-deps -r requirements/uv.txt >&2
}
echo "$PWD/$venv/bin/uv"
