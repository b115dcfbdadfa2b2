"""One input gives one result to the bit: on the first call and on later ones, in this process and in the next.

Of programs of each kind that a library has several ways to compute (products, convolutions, attention), and of
what threads share out: reductions, scans, updates, gradients.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "bits_of_programs.py"


def run(cache: Path, **environment: str) -> dict[str, list[str]]:
    """Of a fresh process, which keeps its code in `cache`."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, "BRAZE_CACHE_DIR": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """With an empty cache, and with what that one has left there."""
    cache = tmp_path_factory.mktemp("cache")
    return run(cache), run(cache)


def test_first_calls_give_what_later_ones_give(processes):
    for process in processes:
        changing = {name: bits for name, bits in process.items() if len(set(bits)) > 1}
        assert not changing


def test_processes_agree(processes):
    one, other = processes
    assert len(one) > 120
    assert {name: bits for name, bits in one.items() if other[name] != bits} == {}
