#!/usr/bin/env bash
# docker compose, with what a person would otherwise have to remember:
# - ./results and ./history are there, and driver and head run as the caller, so that what they write is the caller's
#   own. Root stays out of the containers: for root, and where .env says otherwise, Compose's own defaults hold.
# - As many resources replicas as run now stay: Compose would go back to one when it starts what the driver depends on.
# - Where `up` fails, what to do about it: Compose says what failed, and leaves behind what it had started.
set -euo pipefail

in_dotenv() { grep -qs "^$1=" .env; }

mkdir -p results history
if [ "$(id -u)" != 0 ] && ! in_dotenv ROLLGYM_UID; then
  ROLLGYM_UID="${ROLLGYM_UID:-$(id -u)}" ROLLGYM_GID="${ROLLGYM_GID:-$(id -g)}"
  export ROLLGYM_UID ROLLGYM_GID
fi
replicas=$(docker compose ps --quiet resources 2>/dev/null | grep -c . || true)
if ((replicas > 0)); then export ROLLGYM_REPLICAS="$replicas"; fi
if [ "${1:-}" != up ]; then exec docker compose "$@"; fi
docker compose "$@" || {
  code=$?
  echo "where a port is taken, HEAD_PORT=… make up takes another (see .env.example); make down removes what was started" >&2
  exit "$code"
}
