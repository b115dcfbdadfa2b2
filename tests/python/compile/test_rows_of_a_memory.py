"""Tensors in one memory, of which each call is given others: how far apart they lie counts where one is written."""

import pytest
import torch
from compiling import compiled, same

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def function_of(body, given, result):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    scope = {"torch": torch}
    exec(compile(f"def f({given}):\n{lines}\n    return {result}", __file__, "exec"), scope)
    return scope["f"]


ROWS = {
    # Rows of one tensor, and that tensor: they lie at another distance in each iteration.
    "a row and its tensor": "y = y + x * xs.sum()",
    "two rows": "y = y + x * xs[-1] + xs[0]",
    "a row beside a written tensor": "out[0] = x + xs[1]; y = y + out[0]",
    "a row of another order": "y = y + x * z - 1",
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_one_tensor(name):
    loop = f"for x, z in zip(xs, flipped):\n    {ROWS[name]}\n    y.sum().item()"
    function = function_of(loop, "xs, y, out, flipped", "y, out")

    def make(length):
        # Rows of `flipped` lie in the memory of `xs`, in the other order.
        xs = torch.arange(5.0 * length).reshape(length, 5)
        return xs, torch.ones(5), torch.zeros(2, 5), xs.unbind()[::-1]

    fast = compiled(function)
    for _ in range(3):
        same(fast(*make(7)), function(*make(7)))
    assert len(fast.report()["segments"]) <= 3
    assert fast.counts()["native"] == 0


IF_EAGER_MAY = "try:\n    {}\n    s = a.sum()\nexcept RuntimeError:\n    s = a.sum() + 1"
WRITES = {
    "both": IF_EAGER_MAY.format("b.add_(a)"),
    "into both": IF_EAGER_MAY.format("torch.cat([a[:2], a[2:]], out=b)"),
    "the first": "a.mul_(2); s = b.sum()",
    "the second": "b.mul_(2); s = a.sum()",
    "a part": "a[1:].zero_(); s = (a + b).sum()",
    "neither": "s = (a * b).sum()",
    "a third": "whole[2].fill_(7); s = (a + b).sum()",
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.filterwarnings("ignore:.*recompile limit")
def test_writes_at_other_distances(write):
    function = function_of(WRITES[write], "a, b, whole", "s, a + 1, b")
    fast = compiled(function)

    def arguments(first, second, other):
        memory = torch.arange(24.0)
        a, b = memory[first : first + 4], memory[second : second + 4]
        return a, b, torch.arange(24.0).reshape(6, 4) if other else memory.reshape(6, 4)

    for places in [(0, 8), (0, 12), (8, 0), (0, 0), (0, 2), (2, 0), (4, 8), (8, 12)]:
        for other in (True, False, True):
            given, native = arguments(*places, other), arguments(*places, other)
            same(fast(*given), function(*native))
            same(given, native)
