"""Architectures whose batch and length, or side, vary; `python architecture_sizes.py` runs them all."""

import architecture_sizes
import pytest

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

# Of each kind one: encoders, decoders, both, tables of positions, sound, patches, resized positions, convolutions.
SAMPLE = ["bert", "llama", "m2m100", "wav2vec2", "vit", "dinov2", "regnet"]


@pytest.mark.parametrize("name", SAMPLE)
def test_one_program_for_all_sizes(name):
    result = architecture_sizes.check(name)
    assert not result.failures, "\n".join(result.failures)
    assert (result.static, result.captured, result.late, result.native) == (1, 2, 0, 0), str(result)
