#!/bin/sh
# Runs the tests on all cores, with their files in memory where there is room: they make thousands of knowledge bases,
# and each would wait for the disk. BIN is the folder of the programs of the environment with the development tools. With
# arguments, passes these to pytest: names of tests to run, or options.
set -eu
memory=/dev/shm
needed=4000000
free=$(df -Pk "$memory" 2> /dev/null | awk 'NR == 2 { print $4 }')
if [ "${free:-0}" -gt "$needed" ] && work=$(mktemp -d "$memory/surefind-tests.XXXXXX"); then
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM
  chmod 711 "$work" # some tests read as another user
  printf '#!/bin/sh\n' > "$work/program"
  chmod +x "$work/program"
  # Some systems run no programs there, and some tests need that.
  if "$work/program" 2> /dev/null; then
    export TMPDIR="$work"
  fi
fi
# A process more than there are cores, because many tests wait for something. A library that starts a thread for each
# core as well would make them wait for each other.
workers=$("$BIN/python" -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
OMP_NUM_THREADS=1 "$BIN/pytest" --dist loadfile --no-loadscope-reorder --numprocesses "$workers" "$@"
