#!/usr/bin/env bash
# Makes .venv with kernelwright and its tools. Called by make: setup_venv.sh PYTHON TORCH PIP_OPTIONS
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 torch=$2 pip_options=$3

fail() { echo "setup: $*" >&2; exit 2; }

command -v "$python" >/dev/null || fail "$python is not on PATH. Try: apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$("$python" --version) is too old. Name 3.11 or newer: make setup PYTHON=python3.12"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  fail "$python has no venv or pip. Try: apt-get install python3-venv"

case $torch in
  *.whl) requirement=$torch ;;
  [0-9]*) requirement="torch==$torch" ;;
  *) requirement="torch$torch" ;; # a range, such as TORCH='>=2.11'
esac

"$python" -m venv --clear .venv
# First, so that a set-up that is interrupted goes on with the same choices.
printf 'PYTHON ?= %s\nTORCH ?= %s\nPIP_OPTIONS ?= %s\n' "$python" "$torch" "$pip_options" > .venv/choices.mk
# Another torch brings its own requirements, its Triton too, so these pins leave and the others stay.
grep -vE '^(torch|triton)==' constraints.txt > .venv/constraints.txt
pip() { .venv/bin/python -m pip --disable-pip-version-check install --quiet "$@"; }
echo "setup: $requirement"
# shellcheck disable=SC2086 # options are words
pip $pip_options --constraint .venv/constraints.txt "$requirement" numpy
.venv/bin/python -c 'import triton' 2>/dev/null || grep '^triton==' constraints.txt >> .venv/constraints.txt
echo "setup: kernelwright and its tools"
# The torch that is installed now satisfies the range, so none is fetched again.
# shellcheck disable=SC2086
pip $pip_options --constraint .venv/constraints.txt --editable '.[dev,docs,hub]'

command -v "${CXX:-g++}" >/dev/null ||
  echo "setup: no ${CXX:-g++} on PATH; kernelwright compiles with it. Try: apt-get install g++"
.venv/bin/python -c 'import torch, platform; print("setup: ready, torch", torch.__version__, "on Python", platform.python_version())'
