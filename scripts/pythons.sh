#!/bin/sh
# Tests with the other Pythons that Surefind supports: a bare install, the demo, and a core of the tests.
# PYTHON is the one that `make test` uses; PYTHONS are the versions. One that is not on this machine is named at the end.
set -eu
cd "$(dirname "$0")/.."

# The programs of a version: on the path, or in pyenv.
find_python() {
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    found=$(command -v "$candidate") && "$found" -c 'import venv' 2> /dev/null && echo "$found" && return
  done
  return 1
}

# All stages, the store, search, benchmarks, and the server.
core="tests/engine/test_contracts.py tests/base/test_spec.py tests/engine/test_store.py tests/engine/test_sync.py tests/engine/test_reader.py
  tests/kb/test_kb.py tests/doors/test_closing.py tests/lab/test_bench_run.py tests/lab/test_bench_latency.py tests/lab/test_measure_spans.py
  tests/doors/test_cli_folders.py tests/doors/test_http.py tests/doors/test_http_access.py tests/test_odd_input.py"
mine=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
tested=0 missing=
for version in $PYTHONS; do
  [ "$version" != "$mine" ] || continue
  if ! python=$(find_python "$version"); then
    missing="$missing $version"
    continue
  fi
  echo "== $("$python" --version)"
  started=$(date +%s)
  # The bare install and the demo use one core, so they run beside the core of the tests.
  DEMO=1 PYTHON="$python" sh scripts/smoke.sh > ".smoke-$version.log" 2>&1 &
  smoke=$!
  make --no-print-directory VENV=".venv-$version" PYTHON="$python" ".venv-$version/.ready-dev"
  # shellcheck disable=SC2086
  BIN=".venv-$version/bin" sh scripts/unit.sh $core || { kill "$smoke"; exit 1; }
  wait "$smoke" || { cat ".smoke-$version.log"; exit 1; }
  tail -n 1 ".smoke-$version.log"
  rm ".smoke-$version.log"
  echo "== $("$python" --version): $(($(date +%s) - started)) s"
  tested=$((tested + 1))
done
for version in $missing; do
  echo "Python $version is not on this machine: NOT TESTED. Install it, or name others: make pythons PYTHONS='3.12 3.13'."
done
echo "Pythons besides $mine: $tested tested, $(echo "$missing" | wc -w) missing"
