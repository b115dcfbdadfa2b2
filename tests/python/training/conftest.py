"""Tests of training need the evaluator of frames."""

import pytest

from braze._load import C


@pytest.fixture(scope="module")
def operators():
    """Those of OpInfo that have gradients."""
    import gradient_sweep  # With PyTorch's test helpers, which other tests of this directory do not want.

    return gradient_sweep.operators()


def pytest_collection_modifyitems(items):
    if hasattr(C, "CompiledFunction"):
        return
    for item in items:
        item.add_marker(pytest.mark.skip(reason="no evaluator for this Python"))
