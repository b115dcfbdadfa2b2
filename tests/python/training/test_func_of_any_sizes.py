"""Transforms of `torch.func` within compiled functions, at sizes that vary: one program after the second call."""

import collections
import functools

import pytest
import torch
from torch import func as T

import braze

SIZES = (3, 4, 5, 6, 7, 5)


def pulled(function, *primals, by):
    value, pull = T.vjp(function, *primals)
    return value, pull(by if by is not None else value)


def loss(x):
    return (x.sin() * x).sum()


# By name: what is done with two tensors of (n, 3).
PROGRAMS = {
    "sum": lambda x, w: T.grad(lambda a: a.sum())(x),
    "operator before the sum": lambda x, w: T.grad(lambda a: (a.sin() * w).sum())(x),
    "mean": lambda x, w: T.grad(lambda a: a.mean())(x),
    "length": lambda x, w: T.grad(lambda a: (a / len(a)).sum())(x),
    "places": lambda x, w: T.grad(lambda a: (a * torch.arange(a.shape[0])[:, None]).sum())(x),
    "cat": lambda x, w: T.grad(lambda a: torch.cat([a, w]).sin().sum())(x),
    "stack": lambda x, w: T.grad(lambda a: torch.stack([a, w]).sum())(x),
    "pad": lambda x, w: T.grad(lambda a: torch.nn.functional.pad(a, (0, 0, 1, 1)).sum())(x),
    "slice": lambda x, w: T.grad(lambda a: (a[1:] * w[:-1]).sum())(x),
    "row": lambda x, w: T.grad(lambda a: a[1].sum())(x),
    "rows": lambda x, w: T.grad(lambda a: a[torch.tensor([0, 1])].sum())(x),
    "windows": lambda x, w: T.grad(lambda a: a.unfold(0, 2, 1).sum())(x),
    "diagonal": lambda x, w: T.grad(lambda a: a.diagonal().sum())(x),
    "flat": lambda x, w: T.grad(lambda a: a.reshape(-1)[:2].sum())(x),
    "repeated": lambda x, w: T.grad(lambda a: a.repeat(2, 1).sum())(x),
    "maximum": lambda x, w: T.grad(lambda a: a.max(0)[0].sum())(x),
    "product": lambda x, w: T.grad(lambda a: (a @ w.t()).tanh().sum())(x),
    "softmax": lambda x, w: T.grad(lambda a: (a.log_softmax(0) * w).sum())(x),
    "variance": lambda x, w: T.grad(lambda a: (a * w).var(0).sum())(x),
    "computed": lambda x, w: T.grad(lambda a: a.sum())(x * 2),
    "two": lambda x, w: T.grad(lambda a, b: a.sum() * b.mean(), argnums=(0, 1))(x, w),
    "one unused": lambda x, w: T.grad(lambda a, b: b.sum(), argnums=(0, 1))(x, w),
    "by keyword": lambda x, w: T.grad(lambda a, b: (a * b).sum())(x, b=w),
    "unpacked": lambda x, w: T.grad(lambda a, b: (a * b).sum())(*[x * 1, w * 1]),
    "with values": lambda x, w: T.grad_and_value(lambda a: ((a * w).sum(), a), has_aux=True)(x),
    "list": lambda x, w: T.grad(lambda p: torch.cat(p).sum())([x, w]),
    "dict": lambda x, w: T.grad(lambda p: p["x"].sum() + p["w"].sum() * p["x"].shape[0])({"x": x, "w": w}),
    "nested": lambda x, w: T.grad(lambda p: (p["both"][0] * p["both"][1][0]).sum())({"both": (x, [w])}),
    "partial": lambda x, w: T.grad(functools.partial(lambda b, a: (a * b).sum() + b.sum(), w))(x),
    "vjp": lambda x, w: pulled(lambda a: a.sin() * 2, x, by=w),
    "vjp of two": lambda x, w: pulled(lambda a, b: torch.cat([a, b]).sum(0), x, w, by=None),
    "vjp of one unused": lambda x, w: pulled(lambda a, b: b.sum(), x, w, by=None),
    "jacrev": lambda x, w: T.jacrev(lambda a: a.sum(0))(x),
    "jacrev of all": lambda x, w: T.jacrev(lambda a: a.sin() * w)(x),
    "jacfwd": lambda x, w: T.jacfwd(lambda a: a.sum(0))(x),
    "hessian": lambda x, w: T.hessian(loss)(x),
    "vmap": lambda x, w: T.vmap(lambda a: a / a.shape[0], in_dims=1)(x),
    "vmap, zeros": lambda x, w: T.vmap(lambda a: a.new_zeros(a.shape) + 1, in_dims=1)(x),
    "vmap, expanded": lambda x, w: T.vmap(lambda a: a.new_ones(()).expand(a.shape), in_dims=1, out_dims=1)(x),
    "vmap of a tuple": lambda x, w: T.vmap(lambda p: p[0] * p[1].shape[0], in_dims=((1, 1),))((x, w)),
    "vmap, one as it is": lambda x, w: T.vmap(lambda a, b: a * b.shape[0], in_dims=(0, None))(x, w),
    "vmap of grad": lambda x, w: T.vmap(T.grad(lambda a, b: (a.sin() * b).sum()), in_dims=1)(x, w),
    "vmap of grad, unused": lambda x, w: T.vmap(T.grad(lambda a, b: b.sum(), argnums=(0, 1)), in_dims=1)(x, w),
    "vmap of vjp": lambda x, w: T.vmap(lambda a, b: pulled(torch.sin, a, by=b))(x, w),
    "grad of grad": lambda x, w: T.grad(lambda a: T.grad(lambda b: (b.sin() * w).sum())(a).pow(2).sum())(x),
    "grad of vmap": lambda x, w: T.grad(lambda a: T.vmap(lambda b, c: (b * c).sin().sum())(a, w).sum())(x),
    "jvp": lambda x, w: T.jvp(lambda a: a.sin() * 2, (x,), (w,)),
    "jvp of grad": lambda x, w: T.jvp(T.grad(loss), (x,), (w,)),
    "jvp by columns": lambda x, w: T.jvp(lambda a: a.sum(0), (x,), (w.sin(),)),
    "vmap of jvp": lambda x, w: T.vmap(lambda a, b: T.jvp(torch.sin, (a,), (b,)))(x, w),
    "jacobian": lambda x, w: torch.autograd.functional.jacobian(lambda a: a.sum(0), x),
}
# A container of another kind holds sizes of the call; how often a result is repeated is a plain number.
FOR_EACH_SIZE = {
    "ordered dict": lambda x, w: T.grad(lambda p: p["x"].sum())(collections.OrderedDict(x=x)),
    "vmap, nothing batched": lambda x, w: T.vmap(lambda a: w)(x),
}
# A branch on the size has a program for each side.
BRANCHED = {
    "branch": lambda x, w: T.grad(lambda a: a.sum() if a.shape[0] > 4 else a.sum() * 2)(x),
    "vmap with a branch": lambda x, w: T.vmap(lambda a: a * (1 if len(a) > 4 else 2), in_dims=1)(x),
}
CAPTURES = {**dict.fromkeys(PROGRAMS, 2), **dict.fromkeys(BRANCHED, 3), **dict.fromkeys(FOR_EACH_SIZE, 5)}
if not torch.__version__.startswith("2.13"):  # Jacobians of an older PyTorch are made for each size.
    CAPTURES |= dict.fromkeys(("jacrev of all", "jacfwd", "hessian"), 5)
ALL = {**PROGRAMS, **BRANCHED, **FOR_EACH_SIZE}


@pytest.mark.parametrize("wants_gradients", [False, True], ids=["", "gradients"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ALL)
def test_as_eager(name, dynamic, wants_gradients):
    compiled = braze.compile(ALL[name], dynamic=dynamic)
    data = torch.Generator().manual_seed(0)
    for n in SIZES:
        x, w = torch.randn(n, 3, generator=data), torch.randn(n, 3, generator=data)
        theirs, ours = ([one.clone().requires_grad_(wants_gradients) for one in (x, w)] for _ in range(2))
        expected, found = ALL[name](*theirs), compiled(*ours)
        torch.testing.assert_close(found, expected)
        if not wants_gradients:
            continue
        roots = [
            [one for one in torch.utils._pytree.tree_leaves(tree) if one.requires_grad]
            for tree in (found, expected)
        ]
        assert len(roots[0]) == len(roots[1])
        for side in roots:
            if side:
                sum(one.sin().sum() for one in side).backward()
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine.grad, other.grad)
    counts = compiled.counts()
    assert counts["native"] == 0, compiled.reasons()
    assert counts["captured"] <= CAPTURES[name], compiled.guards()[-1][-4:]


def test_containers_are_left_as_they_were():
    """What is given to a transform is the user's, also where it holds tensors whose sizes vary."""
    held = {"x": None, "all": []}

    def f(x):
        held["x"] = x
        held["all"].append(x)
        return T.grad(lambda p: p["x"].sum() + p["all"][-1].sum())(held)["x"], held["x"] is x

    compiled = braze.compile(f)
    for n in SIZES:
        x = torch.randn(n)
        gradient, is_same = compiled(x)
        assert is_same and held["x"] is x and held["all"][-1] is x
        torch.testing.assert_close(gradient, torch.ones(n))
        held["all"].clear()
