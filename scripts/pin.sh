#!/usr/bin/env bash
# Pins requirements/*.in into *.txt: names and versions only, for every platform and Python from 3.11 on.
# Existing pins are kept where they still fit; `make pin ARGS=--upgrade` takes the newest.
set -euo pipefail

uv=$(scripts/uv.sh)

pin() { # pin NAME [FLAG...]
  echo "pin: requirements/$1.txt"
  "$uv" pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url \
    "requirements/$1.in" --output-file "requirements/$1.txt" "${@:2}"
}

for name in run dev build uv; do pin "$name" "$@"; done
ours=()
for part in common head resources env-bundle driver; do ours+=(--no-emit-package "rollgym-$part"); done
for service in head resources env-bundle driver; do pin "$service" "${ours[@]}" "$@"; done
for peer in requirements/peer-*.in; do pin "$(basename "$peer" .in)" "$@"; done
