"""Arguments and results in containers, keyword arguments and defaults."""

import collections
import dataclasses

import pytest
import torch
from compare import check
from torch.utils import _pytree as pytree

import braze

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Registered:
    value: torch.Tensor
    scale: float


pytree.register_dataclass(Registered)


def x(*shape):
    return torch.randn(*shape)


def test_containers_in_and_out():
    def fn(batch, pair, items):
        return {"sum": batch["a"] + pair.left, "rest": [items[0] * 2, (pair.right, None, 3, "text")]}

    check(fn, {"a": x(3), "b": 5}, Pair(x(3), x(2)), [x(4), "word"])


def test_named_tuple_out():
    assert isinstance(check(lambda a: Pair(a + 1, a), x(3))(x(3)), Pair)


def test_dataclass():
    program = check(lambda r: Registered(r.value * r.scale, 2.0), Registered(x(3), 3.0))
    with pytest.raises(braze.Error, match="r"):
        program(Registered(x(3), 4.0))


def test_return_types_of_torch():
    got = check(lambda a: a.max(dim=1), x(3, 4))(x(3, 4))
    assert type(got) is torch.return_types.max


def test_one_tensor_needs_no_tuple():
    program = braze.trace(lambda a: a + 1, x(3))
    assert torch.equal(program(torch.zeros(3)), torch.ones(3))


def test_no_arguments():
    assert torch.equal(braze.trace(lambda: torch.arange(3) + 1)(), torch.tensor([1, 2, 3]))


def test_nothing_returned():
    assert braze.trace(lambda a: None, (x(3),))(x(3)) is None


def defaults(a, scale=2.0, *, bias=None, flag=False):
    a = a * scale
    return a if bias is None else a - bias


def test_keywords_and_defaults():
    a, b = x(3), x(3)
    program = check(defaults, a)
    assert torch.equal(program(a, 2.0), a * 2)
    assert torch.equal(program(a=a), a * 2)
    assert torch.equal(program(a, scale=2.0, bias=None), a * 2)
    with pytest.raises(TypeError, match=r"bias.*traced with None, got tensor f32\[3\]"):
        program(a, bias=b)
    with pytest.raises(ValueError, match=r"scale.*traced with float 2.0, got float 3.0"):
        program(a, 3.0)
    program = check(defaults, a, 3.0, bias=b)
    torch.testing.assert_close(program(a, 3.0, bias=b), a * 3.0 - b)
    torch.testing.assert_close(program(bias=b, scale=3.0, a=a), a * 3.0 - b)
    with pytest.raises(TypeError, match="bias"):
        program(a, 3.0)


def test_var_arguments():
    def fn(first, *rest, **named):
        return first + sum(rest) + named["extra"]

    a = x(3)
    program = check(fn, a, a + 1, a + 2, extra=a + 3)
    with pytest.raises(TypeError, match="3 positional|takes 3|missing"):
        program(a, a, extra=a)
    with pytest.raises(TypeError, match="other"):
        program(a, a, a, extra=a, other=a)


def test_constants_are_compared_exactly():
    a = x(3)
    program = braze.trace(lambda a, n: a * n, (a, 1))
    program(a, 1)
    for other in (True, 1.0, 2, "1", None):
        with pytest.raises((TypeError, ValueError)):
            program(a, other)
    program = braze.trace(lambda a, n: a * n, (a, 0.0))
    with pytest.raises(ValueError):
        program(a, -0.0)
    braze.trace(lambda a, n: a * n, (a, float("nan")))(a, float("nan"))


def test_dict_order_counts():
    a, b = x(3), x(2)
    program = braze.trace(lambda d: torch.cat(list(d.values())), ({"a": a, "b": b},))
    with pytest.raises(braze.Error, match="keys"):
        program({"b": b, "a": a})
    with pytest.raises(braze.Error, match="d"):
        program({"a": a})


def test_the_same_tensor_twice():
    a = x(3)
    program = braze.trace(lambda a, b: a + b, (a, a))
    assert torch.equal(program(a, a), a + a)
    with pytest.raises(braze.Error, match="same tensor"):
        program(a, x(3))


class Holder:
    def __init__(self, value):
        self.value = value
        self.parts = [value, {"again": value}]


def test_objects_with_tensors_are_rebuilt():
    program = braze.trace(lambda a: Holder(a + 1), (x(3),), check=False)
    got = program(torch.zeros(3))
    assert type(got) is Holder
    assert torch.equal(got.value, torch.ones(3))
    assert got.parts[0] is got.value


def test_unknown_objects_are_refused():
    class OwnList(list):
        pass

    with pytest.raises(TypeError, match="OwnList"):
        braze.trace(lambda a: OwnList([a + 1]), (x(3),))


def test_builtin_functions():
    check(torch.relu, x(3))
    check(torch.add, x(3), x(3))
    check(torch.nn.functional.softmax, x(3, 4), dim=-1)
