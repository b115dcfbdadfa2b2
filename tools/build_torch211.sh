#!/usr/bin/env bash
# Builds braze's torch part against the torch that `python3` has, on a machine with neither LLVM nor network:
#   tools/build_torch211.sh CORE_DIRECTORY        # CORE_DIRECTORY: made by tools/pack_core.sh elsewhere
# Made for torch 2.11 with CUDA 13 on Python 3.12 and Ubuntu 24.04; needs cmake, ninja, g++ and pybind11 there.
# Afterwards PYTHONPATH=python python3 -c "import braze" works.
set -euo pipefail
core="$(realpath "${1:?usage: tools/build_torch211.sh CORE_DIRECTORY}")"
cd "$(dirname "$0")/.."
[ -e "$core/libbraze_core.so" ] || { echo "no libbraze_core.so in $core; make it with tools/pack_core.sh" >&2; exit 1; }
python="${PYTHON:-python3}"
# The system's compiler, whatever CXX says: one that links a static C++ library of its own would bring a second copy of
# its streams and locales into torch's process, and crash there.
export CC="${BRAZE_CC:-/usr/bin/gcc}" CXX="${BRAZE_CXX:-/usr/bin/g++}"
"$python" -c 'import torch, pybind11, sys; print("building for torch", torch.__version__, "on Python", sys.version.split()[0])'

mkdir -p python/braze/lib
cp "$core/libbraze_core.so" python/braze/lib/
cmake -G Ninja -S . -B build-torch211 --log-level=WARNING -DBRAZE_TESTS=OFF -DBRAZE_CORE_PREFIX="$PWD/python/braze/lib" \
  -DPython_EXECUTABLE="$(command -v "$python")"
cmake --build build-torch211 --target _C --parallel "$(nproc --all)"
readelf -d python/braze/lib/libbraze_torch.so | grep -q 'NEEDED.*libstdc++.so' \
  || { echo "$CXX links the C++ library statically; name another compiler in BRAZE_CXX" >&2; exit 1; }
PYTHONPATH=python "$python" -c 'import braze; print("built", braze.__file__)'
