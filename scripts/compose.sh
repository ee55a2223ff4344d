#!/usr/bin/env bash
# docker compose, with ./results in place and the driver running as the caller, so that results are the caller's own.
# Root stays out of the containers: for root, and where .env says otherwise, Compose's own defaults hold.
set -euo pipefail

mkdir -p results
if [ "$(id -u)" != 0 ] && ! grep -qs '^ROLLGYM_UID=' .env; then
  ROLLGYM_UID="${ROLLGYM_UID:-$(id -u)}" ROLLGYM_GID="${ROLLGYM_GID:-$(id -g)}"
  export ROLLGYM_UID ROLLGYM_GID
fi
exec docker compose "$@"
