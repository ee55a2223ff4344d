#!/usr/bin/env bash
# Brings up a Docker engine with Compose v2 on a bare Debian 12 host, also on one that reaches Debian's and Python's
# package registries but no container registry.
#
# Idempotent: it installs what is missing from Debian, starts dockerd where no engine answers, and builds stand-ins for
# the base images that are not there, so that a Dockerfile's ordinary FROM line works unchanged. An image of that name
# that exists already, as on a host that can pull, is left alone.
#
#   docker-engine.sh            engine, plugins and the stand-in images
#   docker-engine.sh engine     engine and plugins alone
set -euo pipefail

PYTHON_IMAGE="${PYTHON_IMAGE:-python:3.13-slim-trixie}"
PROMETHEUS_IMAGE="${PROMETHEUS_IMAGE:-prom/prometheus:v2.53.3}"
SUITE=trixie
CACHE="${DOCKER_ENGINE_CACHE:-/var/cache/docker-engine}"
PLUGINS=/usr/local/lib/docker/cli-plugins
SOURCES=/etc/apt/sources.list.d/debian.sources
CERTIFICATES=/etc/ssl/certs/ca-certificates.crt

log() { printf 'docker-engine: %s\n' "$*" >&2; }

mirror() { awk '/^URIs:/ {print $2; exit}' "$SOURCES"; }

apt_suite() { # apt against $SUITE in state folders of its own: the host's package lists and pins stay as they are
  local state="$CACHE/apt"
  mkdir -p "$state/lists/partial" "$state/archives/partial"
  echo "deb $(mirror) $SUITE main" >"$state/sources.list"
  "$@" -o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o "Dir::State::Lists=$state/lists" -o "Dir::Cache::Archives=$state/archives"
}

install_packages() {
  local missing=()
  command -v dockerd >/dev/null || missing+=(docker.io iptables)
  command -v debootstrap >/dev/null || missing+=(debootstrap)
  ((${#missing[@]})) || return 0
  log "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
}

install_plugins() {
  docker compose version >/dev/null 2>&1 && docker buildx version >/dev/null 2>&1 && return
  log "installing Compose v2 and buildx from $SUITE"
  apt_suite apt-get -qq update
  local work
  work="$(mktemp -d)"
  (cd "$work" && apt_suite apt-get -qq download docker-compose docker-buildx && for deb in *.deb; do dpkg -x "$deb" .; done)
  install -D -m 755 -t "$PLUGINS" "$work"/usr/libexec/docker/cli-plugins/docker-{compose,buildx}
  rm -rf "$work"
}

start_engine() {
  docker info >/dev/null 2>&1 && return
  # An engine that was killed leaves its pid files behind and then refuses to start.
  pgrep -x dockerd >/dev/null || rm -f /var/run/docker.pid /var/run/docker/containerd/containerd.pid
  log "starting dockerd"
  setsid dockerd >/var/log/dockerd.log 2>&1 </dev/null &
  for _ in $(seq 60); do
    docker info >/dev/null 2>&1 && return
    sleep 0.5
  done
  log "dockerd did not answer; last lines of /var/log/dockerd.log:"
  tail -20 /var/log/dockerd.log >&2
  return 1
}

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

rootfs() { # rootfs NAME PACKAGES: a minimal Debian tree in $CACHE/NAME
  local tree="$CACHE/$1"
  [ -e "$tree/.complete" ] && return
  rm -rf "$tree"
  mkdir -p "$tree"
  debootstrap --variant=minbase --include="$2" "$SUITE" "$tree" "$(mirror)" >"$CACHE/$1.log" 2>&1 ||
    {
      tail -20 "$CACHE/$1.log" >&2
      return 1
    }
  rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,man,locale}
  # The host's certificate bundle, so that pip inside a build trusts what the host trusts.
  cp "$CERTIFICATES" "$tree$CERTIFICATES"
  touch "$tree/.complete"
}

import() { # import NAME IMAGE CHANGE...: the tree in $CACHE/NAME as an image
  local tree="$CACHE/$1" image="$2" changes=()
  shift 2
  for change in "$@"; do changes+=(-c "$change"); done
  tar -C "$tree" --exclude=./.complete -c . | docker import "${changes[@]}" - "$image" >/dev/null
}

python_image() {
  have_image "$PYTHON_IMAGE" && return
  log "building a stand-in for $PYTHON_IMAGE"
  rootfs python ca-certificates,python3,python3-venv,python3-pip
  local tree="$CACHE/python" name
  rm -f "$tree"/usr/lib/python3*/EXTERNALLY-MANAGED
  mkdir -p "$tree/usr/local/bin"
  for name in python python3; do ln -sf /usr/bin/python3 "$tree/usr/local/bin/$name"; done
  ln -sf /usr/bin/pip3 "$tree/usr/local/bin/pip"
  import python "$PYTHON_IMAGE" 'CMD ["python3"]' \
    "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 PIP_CERT=$CERTIFICATES SSL_CERT_FILE=$CERTIFICATES"
}

prometheus_image() {
  have_image "$PROMETHEUS_IMAGE" && return
  log "building a stand-in for $PROMETHEUS_IMAGE"
  rootfs prometheus ca-certificates,prometheus
  import prometheus "$PROMETHEUS_IMAGE" 'ENTRYPOINT ["/bin/prometheus"]' 'EXPOSE 9090' 'WORKDIR /prometheus' \
    'CMD ["--config.file=/etc/prometheus/prometheus.yml","--storage.tsdb.path=/prometheus"]'
}

main() {
  mkdir -p "$CACHE"
  install_packages
  install_plugins
  start_engine
  if [ "${1:-all}" != engine ]; then
    python_image
    prometheus_image
  fi
  log "engine $(docker version -f '{{.Server.Version}}'), compose $(docker compose version --short)"
}

main "$@"
