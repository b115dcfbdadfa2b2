"""NumPy on arrays that a call is given: arguments of the graph, by form, whatever is in them."""

import warnings

import numpy as np
import pytest
import torch
from compiling import compiled

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

# Lines of a function of `a` and `b` (arrays) and `x` (a tensor).
ONE_GRAPH = """
r = np.sin(a) * 2 + b
r = torch.from_numpy(np.sin(a)) + x
r = a * 2 + a.mean(), a.shape, a.dtype, a[1:] + 0, a.T * 2, len(a), a.sum(axis=0)
a += 1; r = a * 2
a[0] = 5; a[1:, 0] *= 3; r = np.exp(a), x + 1
c = a; c *= 2; r = c, a
a[1:] = 5; a[:1] = np.sin(b[2:]); r = a * 2
a += 1; r = b * 2, a * 3
r = np.stack([a, b]), np.concatenate([a, b[:1]]), [row.sum() for row in a]
d = {"a": a}; r = d["a"] * 2, d["a"]
r = x + torch.from_numpy(a), torch.as_tensor(b).float()
r = np.where(a > b, a, b), np.maximum(a, 0), a @ b.T
r = isinstance(a + 1, np.ndarray), (a + 1).astype(np.float32), np.float64(2) * a, 1 - a
""".strip().splitlines()

WITH_BREAKS = """
r = x * float(a[0, 0]) + a[1, 1]
t = torch.from_numpy(a); t.add_(1); r = a * 2, t
t = torch.tensor(a); a += 1; r = a, t, torch.from_numpy(a)
r = a.tolist(), a[::-1] * 2, np.sort(b), str(a)
c = a * 2; r = c is a, a is a, (a if c is not b else b)
c = a.T; c += 1; r = a, c
a[1:] += a[:-1]; r = a + 0
a.sort(); r = a, np.sin(a)
r = a if a[0, 0] > 0 else b
c = a[1:]; d = a.T; r = c, c.base is a, d, d.base is a, a[0].base is a, c[1:].base is a
a[0] = 30; v = a[1:]; v[0] += 1; r = a.tolist(), v
a.shape = (-1,); r = a * 2
r = [v * 2 for v in a.flat], len(a.tobytes()), a.flags.owndata
""".strip().splitlines()


def function_of(lines):
    names = {"np": np, "torch": torch}
    body = "".join(f"\n    {line}" for line in lines.split("; "))
    exec(f"def f(a, b, x):{body}\n    return r", names)
    return names["f"]


def close(is_half):
    return {"rtol": 2e-3, "atol": 1e-3} if is_half else {"rtol": 1e-5, "atol": 1e-7}


def alike(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            alike(one, other)
    elif isinstance(theirs, (np.ndarray, np.generic)):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if ours.dtype == object or isinstance(ours, np.ma.MaskedArray):
            assert str(ours) == str(theirs)
        else:
            np.testing.assert_allclose(ours, theirs, **close(ours.dtype == np.float16))
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs, **close(True))
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs)
    else:
        assert ours == theirs


def arguments(seed, kind=np.float64, shape=(3, 4)):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=shape) * 3).astype(kind) for _ in "ab"] + [torch.full(shape, float(seed))]


def outcome(call, given):
    try:
        result = call(*given)
    except Exception as error:
        return (type(error).__name__, given[:2]), None
    return (result, given[:2]), [k for k in (0, 1) for one in as_list(result) if one is given[k]]


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check_call(fast, f, make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = make(), make()
        (mine, my_places), (others, other_places) = outcome(fast, ours), outcome(f, theirs)
        alike(mine[0], others[0])
        assert my_places == other_places  # The very objects that were given.
        alike(mine[1], others[1])


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("lines", ONE_GRAPH)
def test_arrays_are_arguments(lines):
    f = function_of(lines)
    fast = C.CompiledFunction(f, fullgraph=True)
    for seed in range(4):
        check_call(fast, f, lambda seed=seed: arguments(seed))
    assert fast.counts() == {"captured": 1, "replayed": 3, "native": 0}


@pytest.mark.parametrize("lines", ONE_GRAPH + WITH_BREAKS)
@pytest.mark.parametrize("is_warm", [False, True])
def test_of_every_form(lines, is_warm):
    """Types that PyTorch lacks, orders of bytes and of memory, arrays that are read-only or of a subclass."""
    f = function_of(lines)
    for seed in range(20 if is_warm else 0):
        outcome(f, arguments(seed))
    fast = compiled(f)

    def read_only(seed):
        given = arguments(seed)
        given[0].flags.writeable = False
        return given

    def turned(seed):
        a, b, x = arguments(seed)
        return np.asfortranarray(a), b, x

    def overlapping(seed):
        a = arguments(seed, shape=(4, 4))[0]
        return a[:3], a[1:], torch.ones(3, 4)

    def backwards(seed):
        a, b, x = arguments(seed)
        return a[::-1], b, x

    def of_subclass(seed):
        a, b, x = arguments(seed)
        return np.matrix(a), b, x

    def masked(seed):
        a, b, x = arguments(seed)
        return np.ma.masked_less(a, 0), b, x

    def same(seed):
        a, _, x = arguments(seed)
        return a, a, x

    def of_type(kind):
        return lambda seed: arguments(seed, kind)

    makers = [arguments, read_only, arguments, turned, overlapping, backwards, of_subclass, masked, same]
    kinds = (np.float32, np.int64, np.int32, np.uint8, np.uint16, np.float16, bool, ">f8", object, np.complex128)
    makers += [of_type(kind) for kind in kinds]
    makers += [lambda seed: arguments(seed, shape=(5, 4)), lambda seed: arguments(seed, shape=(3, 0)), arguments]
    for seed, make in enumerate(makers):
        for _ in range(2):
            check_call(fast, f, lambda make=make, seed=seed: list(make(seed)))


def test_numbers_of_numpys_that_are_only_passed_on():
    """Behind a break they are others in each call: nobody looks at them."""

    def f(x, given):
        middle = np.median(x.numpy())
        return [middle], {"given": given, "x": x * 2}, middle

    fast = compiled(f)
    for seed in range(5):
        x, given = torch.randn(3, 4), np.float64(seed)
        ours, theirs = fast(x, given), f(x, given)
        alike(ours[0], theirs[0])
        alike(ours[1]["x"], theirs[1]["x"])
        assert ours[1]["given"] is given
        assert ours[0][0] is ours[2]
    assert fast.counts() == {"captured": 1, "replayed": 4, "native": 0}

    def g(x, k):
        return x * k, k + 1, k if k > 2 else -k, {k: 1}, k in [1.0, 2.0], x[int(k) % 3], f"{k}", bool(k), k == 3

    fast = compiled(g)
    for k in (1.0, 3.0, 1.0, 2.0, 3.0, 0.0):
        for kind in (np.float64, np.float32, np.int64):
            x = torch.ones(3, 4)
            ours, theirs = fast(x, kind(k)), g(x, kind(k))
            alike(ours[:3] + ours[4:], theirs[:3] + theirs[4:])
            assert list(ours[3]) == list(theirs[3])


def test_what_a_frame_is_given_behind_a_break():
    def f(x):
        a = np.sort((x * 2).numpy())
        b = np.sin(a) + 1
        return torch.from_numpy(b) * x

    fast = compiled(f)
    for seed in range(4):
        x = arguments(seed)[2]
        alike(fast(x), f(x))
    assert fast.counts()["captured"] == 1
