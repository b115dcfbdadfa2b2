#!/usr/bin/env bash
# Builds braze for this machine's torch (tools/build_torch211.sh) and runs the Python tests on it:
#   tests/gpu/run.sh CORE_DIRECTORY [PYTEST OPTION...]
set -euo pipefail
cd "$(dirname "$0")/../.."
core="${1:?usage: tests/gpu/run.sh CORE_DIRECTORY [PYTEST OPTION...]}"
shift
tools/build_torch211.sh "$core"
PYTHONPATH="$PWD/python" "${PYTHON:-python3}" -m pytest tests/python -q "$@"
