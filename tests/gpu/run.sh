#!/usr/bin/env bash
# Builds, tests and measures on a machine with an NVIDIA GPU, CUDA 13, PyTorch 2.11 and Python 3.12:
#   tests/gpu/run.sh CORE_DIRECTORY [STAGE ...]
# The stages are build, tests, differential, graphs, models and bandwidth: all of them, or those that are named.
# CORE_DIRECTORY is made by tools/pack_core.sh elsewhere. With BRAZE_TEST_PASSED=FILE (tests/python/conftest.py) tests
# go on where an earlier run stopped. Output of each stage: $OUT/STAGE.log, out/gpu without OUT.
set -uo pipefail
core="${1:?usage: tests/gpu/run.sh CORE_DIRECTORY [STAGE ...]}"
shift
[ $# -gt 0 ] || set -- build tests differential graphs models bandwidth
cd "$(dirname "$0")/../.."
export PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
out="${OUT:-$PWD/out/gpu}"
mkdir -p "$out"
python="${PYTHON:-python3}"
sharded=("$python" -m pytest -q -n "${JOBS:-14}" --dist worksteal)

stage() {
  case "$1" in
    build) tools/build_torch211.sh "$core" ;;
    tests) "${sharded[@]}" tests/python/gpu ;;
    # The suites of programs that change between calls, with every tensor on the GPU; and where calls are CUDA graphs.
    differential) BRAZE_TEST_DEVICE=cuda "${sharded[@]}" tests/python/stale tests/python/training/test_loops.py \
      tests/python/training/test_stale_training.py tests/python/dynamic ;;
    graphs) BRAZE_TEST_DEVICE=cuda BRAZE_CUDAGRAPHS=1 "${sharded[@]}" tests/python/stale \
      -k "test_no_stale_result and not plain and not specialised" ;;
    models) "$python" bench/gpu/models.py ;;
    bandwidth) "$python" bench/gpu/bandwidth.py ;;
    *) echo "no stage '$1'" >&2; return 2 ;;
  esac
}

failed=0
for each in "$@"; do
  begun=$SECONDS
  stage "$each" > "$out/$each.log" 2>&1
  code=$?
  echo "$each: exit $code, $((SECONDS - begun)) s"
  tail -n "${LINES_SHOWN:-15}" "$out/$each.log" | cut -c1-300
  [ $code -eq 0 ] || failed=1
done
exit $failed
