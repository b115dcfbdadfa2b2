"""Tensors of Python's data by a tensor's own methods and by torch.Tensor: one graph, whose sizes may vary."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import braze

ARRAY = np.array([3, 4, 5])

# Expressions of x (which a caller gives) and y (which the call has computed), and of their length n.
NEW = (
    "x.new_tensor([1.0, 2.0])",
    "y.new_tensor([1.0, 2.0])",
    "y.new_tensor(1)",
    "y.new_tensor(True)",
    "y.new_tensor([[1, 2], [3, 4]])",
    "y.new_tensor([1, 2], dtype=torch.int32)",
    "y.new_tensor([n, 2])",
    "y.new_tensor(n)",
    "y.new_tensor(n / 2)",
    "y.new_tensor(np.array([1.0, 2.0]))",
    "y[1:].new_tensor([1])",
    "y.long().new_tensor([1, n])",
    "torch.arange(n).new_tensor([[1, 2], [3, 4]])",
    "torch.Tensor.new_tensor(y, [1])",
    "(lambda make: make([1]))(y.new_tensor)",
    "y.new([1, 2])",
    "y.new((1, 2))",
    "x.new([1.5])",
    "y.new(n).fill_(3)",
    "y.new(1, 2).fill_(3)",
    "y.new(y.shape).fill_(3)",
    "y.new().sum()",
)
LEGACY = (
    "torch.Tensor([1.0, 2.0])",
    "torch.Tensor([[1, 2], [3, 4]])",
    "torch.Tensor([n, 2])",
    "torch.Tensor([i * 0.5 for i in range(3)])",
    "torch.Tensor((1, 2))",
    "torch.Tensor(2, 3).fill_(1)",
    "torch.Tensor(n, 3).fill_(1)",
    "torch.Tensor(y.shape).fill_(1)",
    "torch.Tensor().sum()",
    "torch.Tensor(x)",
    "torch.Tensor(y)",
    "torch.Tensor(y.clone()).add_(1)",
    "torch.Tensor(ARRAY)",
    "torch.LongTensor(ARRAY)",
    "torch.Tensor(np.arange(n))",
    "torch.Tensor([y.detach().sum(), 2.0])",
)


def function_of(expression: str) -> object:
    scope = {"torch": torch, "np": np, "ARRAY": ARRAY}
    exec(f"def f(x):\n    y, n = x + 1, x.shape[0]\n    return {expression}, y * 2\n", scope)
    return scope["f"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("wants_gradients", [False, True], ids=["", "gradients"])
@pytest.mark.parametrize("expression", NEW + LEGACY)
def test_is_one_graph_for_all_sizes(expression: str, wants_gradients: bool, dtype: torch.dtype) -> None:
    if wants_gradients and not dtype.is_floating_point:
        pytest.skip("integers have no gradients")
    function = function_of(expression)
    compiled = braze.compile(function, fullgraph=True)
    for n in (5, 8, 16, 7):
        x = torch.arange(n).to(dtype).requires_grad_(wants_gradients)
        ours, theirs = compiled(x), function(x)
        for a, b in zip(ours, theirs, strict=True):
            assert type(a) is type(b)
            assert (a.dtype, a.stride(), a.requires_grad) == (b.dtype, b.stride(), b.requires_grad)
            torch.testing.assert_close(a, b)
        assert (ours[0].data_ptr() == x.data_ptr()) == (theirs[0].data_ptr() == x.data_ptr())
    assert len(compiled.programs()) <= (4 if wants_gradients else 2)


def test_arrays_are_copied_at_each_call() -> None:
    array = np.array([1.0, 2.0])
    compiled = braze.compile(lambda x: torch.Tensor(array) + x)
    for number in (1.0, 5.0, 7.0):
        array[0] = number
        assert compiled(torch.zeros(2)).tolist() == [number, 2.0]


def test_the_default_dtype_is_guarded() -> None:
    compiled = braze.compile(lambda x: (torch.Tensor([1.0]), x + 1), fullgraph=True)
    assert compiled(torch.zeros(2))[0].dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(torch.zeros(2))[0].dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("call", ["torch.Tensor(1.5)", "torch.Tensor('a')", "y.new(1.5)", "y.new_tensor('a')"])
def test_refused_data_raises_as_in_eager(call: str) -> None:
    function = function_of(call)
    with pytest.raises((TypeError, ValueError)) as theirs:
        function(torch.ones(3))
    with pytest.raises(type(theirs.value)) as ours:
        braze.compile(function)(torch.ones(3))
    assert str(ours.value) == str(theirs.value)


def test_other_classes_keep_their_handlers() -> None:
    class Named(torch.Tensor):
        pass

    compiled = braze.compile(lambda x: (x + 1).new_tensor([1.0]))
    for _ in range(2):
        assert type(compiled(torch.ones(2).as_subclass(Named))) is type(
            torch.ones(2).as_subclass(Named).new_tensor([1.0])
        )
