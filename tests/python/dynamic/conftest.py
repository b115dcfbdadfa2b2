"""What several files of tests about sizes share."""

import pytest
import torch


@pytest.fixture
def no_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield
