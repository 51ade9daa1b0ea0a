#!/bin/sh
# Installs surefind as a user would, without extras, and walks the shortest path in an empty folder.
# PYTHON needs nothing but venv and pip: it builds the wheels, and installs them and what they need into a new
# environment.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
export PIP_CONSTRAINT="${CONSTRAINTS-constraints.txt}" PIP_BUILD_CONSTRAINT="${CONSTRAINTS-constraints.txt}"
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1
"$PYTHON" -m venv "$work/venv"
"$work/venv/bin/python" -m pip wheel --no-deps --wheel-dir "$work/wheels" ./models .
"$work/venv/bin/python" -m pip install --no-compile "$work"/wheels/*.whl
cd "$work"
mkdir docs
printf -- '---\ntitle: Cash reports\nstatus: approved\n---\n# Cash reports\n\nA CTR is due within 15 calendar days.\n' > docs/ctr.md
surefind="$work/venv/bin/surefind"
"$surefind" --version
"$surefind" init
"$surefind" sync docs
"$surefind" search "when is the CTR due" --where status=approved --json | grep -q '"document": "ctr.md"'
"$surefind" doctor
if "$surefind" search "" 2> error.txt; then exit 1; fi
grep -q "query is empty" error.txt
"$work/venv/bin/python" -c "
from surefind.sample import sample_folder, sample_questions
assert sample_folder().is_dir() and sample_questions().is_file()"
"$surefind" help | grep -q "^  exam "
"$surefind" help exam | grep -q "^# Exams"
"$surefind" help search | grep -q "^Usage: surefind search"
if [ -n "${DEMO-}" ]; then
  "$surefind" demo demo > demo.txt
  grep -q "^Recommendation: " demo.txt
fi
echo "smoke: 1 passed, 0 failed"
