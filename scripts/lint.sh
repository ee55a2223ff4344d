#!/usr/bin/env bash
# Everything that can be wrong without running the product. Runs every check, then fails if one failed.
set -uo pipefail

bin=${1:-.venv/bin}
sources=(libs services tests)
for folder in benchmarks examples; do [ -z "$(git ls-files "$folder/*.py")" ] || sources+=("$folder"); done
failed=0

check() { # check WHAT COMMAND...: its output is shown where it fails
  local output
  if output=$("${@:2}" 2>&1); then
    printf 'lint: ok      %s\n' "$1"
  else
    printf 'lint: FAILED  %s\n%s\n' "$1" "$output"
    failed=1
  fi
}

check "ruff check" "$bin/ruff" check --quiet "${sources[@]}"
check "ruff format" "$bin/ruff" format --quiet --check "${sources[@]}"
check "types (mypy --strict)" "$bin/mypy" --no-error-summary "${sources[@]}"
check "import rules" "$bin/lint-imports" --no-cache
check "no registry hosts, machine paths or lock files" scripts/check-tree.sh
if command -v promtool >/dev/null; then
  check "Prometheus configuration" promtool check config --syntax-only deploy/prometheus/prometheus.yml
  check "Prometheus rules" promtool check rules deploy/prometheus/rules.yml
  check "Prometheus rule tests" promtool test rules deploy/prometheus/rules_test.yml
else
  echo "lint: SKIPPED Prometheus configuration and rules: no promtool here (Debian's package prometheus has it)"
fi
exit "$failed"
