"""NumPy within a call, on what does not depend on tensors: computed once, and no break."""

import numpy as np
import pytest
import torch
from compiling import check, compiled, same

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.randn(3, 4)
TABLE = np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def schedule(x, steps):
    """As samplers of diffusers make theirs."""
    sigmas = np.array([0.1, 0.5, 0.9])
    times = np.linspace(0, 2, steps)
    sigmas = np.interp(times, np.arange(0, len(sigmas)), sigmas)
    sigmas = np.concatenate([sigmas, [sigmas[-1]]]).astype(np.float32)
    return x * float(np.log(sigmas)[0]) + sigmas[-1].item() + torch.from_numpy(sigmas).sum()


def stores(x, k):
    a = np.zeros(4)
    a[1] = k
    a[2:] += 1
    a *= 2
    b = a.copy()
    b.sort()
    return x * torch.as_tensor(b, dtype=torch.float32) + a.reshape(2, 2).T.sum()


def picks(x, k):
    a = np.array([0, k, 2, 0])
    found = np.nonzero(a)[0]
    chosen = np.where(a > 1, 1.0, 0.0)
    return x * len(found) + float(chosen.sum()) + int(a.argmax()) + a.tolist()[1]


def indices(x, k):
    a = np.array([0, k])
    return x[torch.from_numpy(a)] + x[:, a[0] : a[1] + 1].sum()


def items(x, k):
    for t in np.linspace(0, 1, 3):
        x = x * t + k
    for i, j in enumerate(np.arange(3)):
        x = x + i * j
    return x


def grid(x, k):
    rows, columns = np.meshgrid(np.arange(k + 1), np.arange(2))
    places = np.stack([rows, columns], -1).reshape(-1, 2)
    return x.sum() + torch.tensor(places), places.shape, places.size


def window(x, k):
    w = np.hanning(4 + k)[:4]
    v = np.outer(w, w)
    v /= v.max()
    return x @ torch.from_numpy(v).float()


def whole_array(x, k):
    return x * torch.tensor(TABLE) + TABLE[1].item() + TABLE.shape[0] * k


@pytest.mark.parametrize("function", [schedule, stores, picks, indices, items, grid, window, whole_array])
def test_numpy_is_no_break(function):
    check(function, (X, 1), (X, 2))


def test_arrays_that_are_given_away_are_new_ones_of_each_call():
    def f(x, k):
        a = np.arange(4.0) * k
        return x * k, a, a[::2], np.nonzero(a), a.reshape(2, 2).T

    fast = compiled(f)
    for _ in range(3):
        ours, theirs = fast(X, 2), f(X, 2)
        for mine, other in zip(ours[1:3] + ours[3] + ours[4:], theirs[1:3] + theirs[3] + theirs[4:], strict=True):
            assert np.array_equal(mine, other)
            assert (mine.dtype, mine.strides, mine.flags.writeable) == (other.dtype, other.strides, True)
        assert ours[2].base is ours[1]
        ours[1][0] = 50.0
        assert ours[2][0] == 50.0
        assert ours[4][0, 0] == 50.0
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_what_is_given_away_twice_is_one_object():
    """Also where a list holds it that is made before it is."""

    def f(x, k):
        a, b, m = np.arange(4.0) * k, (x * k).numpy(), (x + k).numpy().max()
        s = frozenset([(k, 1)])
        return [a, b, m, s], a, b, m, s, {"a": [a]}

    fast = compiled(f)
    for _ in range(3):
        (*held, last), *others, box = fast(X, 2)
        assert all(one is other for one, other in zip([*held, last], others, strict=True))
        assert box["a"][0] is others[0]


def test_what_is_in_an_array_is_guarded_and_told():
    table = np.arange(3.0)
    fast = compiled(lambda x: x * float(table[1]))
    for _ in range(2):
        same(fast(X), X * 1.0)
    guards = [guard for segment in fast.report()["segments"] for guard in segment["guards"]]
    assert any("is an array of the 24 bytes that it was" in guard for guard in guards), guards
    table[1] = 5.0
    same(fast(X), X * 5.0)


def test_a_warning_of_numpys_is_given_by_every_call():
    def f(x):
        return x * float(np.mean(np.zeros(0)))

    fast = compiled(f)
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="empty slice"):
            fast(X)


def test_arrays_that_a_call_is_given_are_no_constants():
    fast = compiled(lambda x, a: (x + 1) * float(a[0]))
    for k in range(6):
        same(fast(X, np.array([k, 2.0])), (X + 1) * k)
    guards = [guard for segment in fast.report()["segments"] for guard in segment["guards"]]
    assert not any("is an array of" in guard for guard in guards), guards


def test_arrays_of_tensors_are_breaks_with_a_name():
    def f(x):
        y = x + 1
        return torch.from_numpy(np.unwrap(y.numpy()) * 2) + y

    fast = compiled(f)
    for _ in range(3):
        same(fast(X), f(X))
    assert [segment["break"]["id"] for segment in fast.report()["segments"] if segment["break"]] == ["numpy"]


def test_tensors_over_arrays_that_a_call_is_given():
    def f(d, a):
        return (
            torch.from_numpy(d["a"]) * 2 + torch.as_tensor(d["b"][0]).float() + torch.tensor(a, dtype=torch.float32)
        )

    fast = C.CompiledFunction(f, fullgraph=True)
    for k in range(6):
        arguments = {"a": np.arange(4.0) * k, "b": [np.ones(4) * k]}, np.arange(8.0)[::2] - k
        same(fast(*arguments), f(*arguments))
    assert fast.counts() == {"captured": 1, "replayed": 5, "native": 0}


def test_tensors_over_arrays_of_other_lengths():
    fast = compiled(lambda a: torch.from_numpy(a).sum() * 2)
    for k in range(3, 9):
        same(fast(np.arange(float(k))), torch.arange(float(k), dtype=torch.float64).sum() * 2)
    assert fast.counts()["captured"] == 2


def test_a_tensor_over_an_array_shares_its_memory():
    table = np.arange(4.0)

    def f(x):
        shared = torch.from_numpy(table)
        shared.add_(1)
        return shared, x * shared

    def g(a, b):
        one, other = torch.from_numpy(a), torch.from_numpy(b)
        one.add_(1)
        return one + other

    def h(a):
        shared = torch.from_numpy(a)
        shared.add_(1)
        return shared * 1, float(a[1])

    fast = compiled(f)
    for k in range(1, 5):
        shared, product = fast(torch.ones(4))
        assert np.array_equal(table, np.arange(4.0) + k)
        same(product, torch.from_numpy(table.copy()))
        before, shared[0] = table[0], 50.0
        assert table[0] == 50.0
        table[0] = before
    for function in (g, h):
        fast = compiled(function)
        for k in range(8):
            ours, theirs = np.arange(4.0) * k, np.arange(4.0) * k
            if function is h:
                arguments, others = (ours,), (theirs,)
            else:
                is_one = k % 3 == 1
                arguments = (ours, ours if is_one else ours.copy())
                others = (theirs, theirs if is_one else theirs.copy())
            same(fast(*arguments), function(*others))
            assert np.array_equal(ours, theirs)


def test_tensors_over_the_statistics_that_a_module_keeps():
    class Statistics(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = np.zeros(4)

        def forward(self, x):
            self.mean = self.mean * 0.9 + 1
            return x + torch.from_numpy(self.mean)

    ours, theirs = Statistics(), Statistics()
    fast = compiled(ours.forward)
    for _ in range(5):
        same(fast(X), theirs(X))
        assert np.array_equal(ours.mean, theirs.mean)
