#!/usr/bin/env bash
# Builds braze for another Python than .venv's and runs tests there:
#   tools/test_python.sh PYTHON [pytest's arguments]        # default: what depends on the version of CPython
# PYTHON needs torch and what tools/requirements.txt lists, cmake and ninja may be .venv's. The build goes to
# build-python<version>/, which holds a package of its own, so that the other versions' libraries stay as they are.
set -euo pipefail
python="$(command -v "${1:?usage: tools/test_python.sh PYTHON [arguments of pytest]}")"
shift
cd "$(dirname "$0")/.."
. ./setup.sh
version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
build="$PWD/build-python$version"
package="$build/package/braze"
mkdir -p "$package"
for file in python/braze/*.py python/braze/_report python/braze/_torch_face; do ln -sfn "$PWD/$file" "$package/"; done

tools="$PWD/.venv/bin"
[ -x "$tools/cmake" ] || tools="$(dirname "$(command -v cmake)")"
[ -e "$build/build.ninja" ] || "$tools/cmake" -G Ninja -S . -B "$build" --log-level=WARNING -DBRAZE_TESTS=OFF \
  -DPython_EXECUTABLE="$python" -DBRAZE_PACKAGE_DIR="$package" ${BRAZE_CORE_PREFIX:+-DBRAZE_CORE_PREFIX="$BRAZE_CORE_PREFIX"}
"$tools/cmake" --build "$build" --target _C -- --quiet
[ $# -gt 0 ] || set -- -q tests/python/interpreter tests/python/guards tests/python/compile tests/python/stale
PYTHONPATH="$build/package" exec "$python" -m pytest "$@"
