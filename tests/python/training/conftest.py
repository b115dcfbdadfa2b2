"""Tests of training need the evaluator of frames."""

import pytest

from braze._load import C


def pytest_collection_modifyitems(items):
    if hasattr(C, "CompiledFunction"):
        return
    for item in items:
        item.add_marker(pytest.mark.skip(reason="no evaluator for this Python"))
