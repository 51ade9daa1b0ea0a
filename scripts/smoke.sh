#!/bin/sh
# Installs surefind as a user would, without extras, and walks the shortest path in an empty folder.
# The wheels are built, and installed with what they need into a new environment of PYTHON.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
CONSTRAINTS="${CONSTRAINTS-constraints.txt}"
export PYTHON CONSTRAINTS
sh scripts/environment.sh "$work/venv" ./models .
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
from surefind.doors.cli.demo import sample_folder, sample_questions
assert sample_folder().is_dir() and sample_questions().is_file()"
"$surefind" help | grep -q "^  exam "
"$surefind" help exam | grep -q "^# Exams"
"$surefind" help search | grep -q "^Usage: surefind search"
if [ -n "${DEMO-}" ]; then
  "$surefind" demo demo > demo.txt
  grep -q "^Use [a-z]" demo.txt
fi
echo "smoke: 1 passed, 0 failed"
