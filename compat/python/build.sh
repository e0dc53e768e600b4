#!/usr/bin/env bash
# Makes a virtual environment with redis-py in ../target/python, once. Usage: build.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
readonly venv=../target/python
readonly package=redis==5.2.1

# Several test processes may build at the same time.
mkdir -p ../target
exec 9>../target/python.lock
flock 9

if [ "$(cat "$venv/built" 2>/dev/null)" != "$package" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$package"
    echo "$package" >"$venv/built"
fi
