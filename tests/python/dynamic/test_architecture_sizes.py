"""Architectures whose batch and length, or side, vary; `python architecture_sizes.py` runs them all."""

import json

import processes
import pytest

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

# Of each kind one: encoders, decoders, both, relative and absolute positions, sound, patches, convolutions.
SAMPLE = ["bert", "llama", "t5", "m2m100", "wav2vec2", "vit", "dinov2", "regnet"]


CHECK = """
import json
import architecture_sizes
for name in {names}:
    result = architecture_sizes.check(name)
    print("result", json.dumps([name, result.failures, [result.static, result.captured, result.late, result.native],
                                str(result)]))
"""


@pytest.fixture(scope="module")
def results():
    """In a process of its own: torch.compile, once used, counts what is set in modules by their addresses."""
    said = processes.fresh(CHECK.format(names=SAMPLE))
    rows = [json.loads(line.removeprefix("result")) for line in said.splitlines() if line.startswith("result")]
    return {name: rest for name, *rest in rows}


@pytest.mark.parametrize("name", SAMPLE)
def test_one_program_for_all_sizes(results, name):
    failures, counts, text = results[name]
    assert not failures, "\n".join(failures)
    assert counts == [1, 2, 0, 0], text
