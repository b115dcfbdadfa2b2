"""Fixtures of several files."""

import warnings

import pytest
import torch


@pytest.fixture
def quiet():
    """Without gradients, and without what NumPy warns of."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
