"""Operators that are asked for shapes with the contents of what is known, where that is expanded."""

import pytest
import torch
import torch.nn.functional as F
from compiling import compiled, same
from torch.distributions import Binomial

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.linspace(-2, 2, 12).view(3, 4)

CALLS = {
    "binomial": lambda x: torch.binomial(torch.tensor(5.0).expand(3, 4), x.sigmoid()) + 1,
    "distribution": lambda x: Binomial(5, logits=x[:1].expand(3, 4)).sample() + x,
    "total count": lambda x: Binomial(torch.tensor(4.0).expand(3, 1), probs=x.sigmoid()).sample() + x,
    "index": lambda x: x[torch.tensor(1).expand(3)] * 2,
    "pair of indices": lambda x: x[torch.tensor([[1], [2]]).expand(2, 3), torch.tensor(0).expand(2, 3)] * 2,
    "mask": lambda x: torch.masked_select(x, torch.tensor([[True], [False], [True]]).expand(3, 4)) * 2,
    "margins": lambda x: F.multi_margin_loss(x, torch.tensor(2).expand(3)) + 1,
    "labels": lambda x: F.multilabel_margin_loss(x, torch.tensor([1, -1, 0, 2]).expand(3, 4)) + 1,
}


@pytest.mark.parametrize("name", CALLS)
def test_expanded_constants(name):
    fast = compiled(CALLS[name])
    with torch.no_grad():
        for number in range(3):
            torch.manual_seed(number)
            ours = fast(X + number)
            torch.manual_seed(number)
            same(ours, CALLS[name](X + number))
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}
    assert fast.report()["operators"]["native"] == 0
