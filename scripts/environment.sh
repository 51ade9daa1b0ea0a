#!/bin/sh
# environment.sh FOLDER REQUIREMENT …: makes a virtual environment of PYTHON and installs requirements into it, with the
# versions of the file CONSTRAINTS. uv needs a sixth of the time of pip. Where uv cannot be had, or finds no packages
# because only pip knows the index, pip does it.
set -eu
folder=$1
shift
uv=.venv-uv/bin/uv
pip="-m pip install --quiet --disable-pip-version-check"
if [ ! -x "$uv" ]; then
  # shellcheck disable=SC2086
  "$PYTHON" -m venv .venv-uv && .venv-uv/bin/python $pip ${CONSTRAINTS:+--constraint "$CONSTRAINTS"} uv || rm -rf .venv-uv
fi
if [ -x "$uv" ] && "$uv" venv --quiet --seed --clear --python "$PYTHON" "$folder" &&
  "$uv" pip install --quiet --python "$folder/bin/python" \
    ${CONSTRAINTS:+--constraints "$CONSTRAINTS" --build-constraints "$CONSTRAINTS"} "$@"; then
  exit 0
fi
echo 'Installing with pip instead. This takes a minute or two.'
rm -rf "$folder"
"$PYTHON" -m venv "$folder"
# pip reads the constraints from the environment, so that they also hold where it builds the packages.
# shellcheck disable=SC2086
PIP_CONSTRAINT="${CONSTRAINTS-}" PIP_BUILD_CONSTRAINT="${CONSTRAINTS-}" "$folder/bin/python" $pip --no-compile "$@"
