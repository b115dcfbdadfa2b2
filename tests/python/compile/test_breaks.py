"""Graph breaks: a function is a chain of replayed segments with native instructions in between."""

import gc
import os
import sys
import threading
import weakref

import pytest
import torch
from compiling import compiled, in_threads, same
from torch import nn

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.randn(4, 5)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def segments(fast):
    return fast.report()["segments"]


def check(function, *calls, count=None):
    """Results as natively; later calls are replayed, and nothing is captured twice."""
    fast = compiled(function)
    for _ in range(3):
        for arguments in calls:
            same(fast(*arguments), function(*arguments))
    assert fast.counts()["captured"] == 1
    assert fast.counts()["native"] == 0
    if count is not None:
        assert len(segments(fast)) == count
    return fast


def test_around_a_print(capsys):
    def f(x):
        y = x * 2 + 1
        print("here")
        return torch.softmax(y, -1) * 3

    fast = check(f, (X,), count=2)
    assert capsys.readouterr().out == "here\n" * 6
    broken = [s["break"] for s in segments(fast) if s["break"]]
    assert len(broken) == 1
    assert "print" in broken[0]["reason"]
    assert broken[0]["file"] == __file__
    assert broken[0]["line"] == f.__code__.co_firstlineno + 2


def test_what_is_only_passed_on_is_not_guarded(capsys):
    def f(x, label, extra):
        y = x * 2
        print(label, extra)
        return y + 1

    check(f, (X, "a", 1), (X, "b", [2]), (X, "c", object()), count=2)


def test_a_branch_on_data():
    def f(x):
        y = x - x.mean()
        if y.sum() > x.sum():
            return y * 2
        return y - 1

    fast = compiled(f)
    for sign in (1, -1, 1, -1):
        same(fast(X.abs() * sign), f(X.abs() * sign))
    assert len(segments(fast)) == 3


def test_a_loop_with_a_break():
    def f(x, n):
        trail = []
        for _ in range(n):
            x = torch.tanh(x + 1)
            trail.append(x.sum().item())
        return x * 2, trail

    fast = check(f, (X, 5))
    assert len(segments(fast)) == 3
    same(fast(X, 7), f(X, 7))
    same(fast(X, 3), f(X, 3))


def test_with_and_try_around_a_break():
    log = []

    def f(x):
        y = x + 1
        with torch.no_grad():
            y = y * 2
            log.append(y.sum().item())
            y = y - 3
        try:
            y = y * 4
            log.append(1 / 0 if y.sum() > 1e9 else "small")
            y = y + 5
        finally:
            log.append("finally")
        return y * 6

    check(f, (X,))
    assert len(log) == 18


def test_exceptions_cross_breaks():
    def f(x, fail):
        y = x * 2
        try:
            if fail.item():
                raise ValueError("mine")
            y = y + 1
        except ValueError as error:
            y = y - len(str(error))
            int(y.sum())
            y = y * 3
        return torch.relu(y)

    fast = compiled(f)
    for fail in (False, True, False, True, False, True):
        same(fast(X, torch.tensor(fail)), f(X, torch.tensor(fail)))
    assert fast.counts() == {"captured": 2, "replayed": 4, "native": 0}


def test_the_handled_exception_is_as_before():
    def f(x):
        try:
            return {}["missing"]
        except KeyError:
            print(end="")
        return x + 1

    fast = compiled(f)
    for _ in range(3):
        same(fast(X), X + 1)
        assert sys.exc_info() == (None, None, None)
        with pytest.raises(ValueError) as caught:
            raise ValueError
        assert caught.value.__context__ is None


def test_an_error_after_a_break_has_the_users_lines():
    def f(x):
        y = x * 2
        int(y.sum())
        return y @ y

    fast = compiled(f)
    for _ in range(3):
        with pytest.raises(RuntimeError) as caught:
            fast(X)
        lines = [entry.lineno + 1 for entry in caught.traceback if entry.path.name == "test_breaks.py"]
        assert lines[-1] == f.__code__.co_firstlineno + 3


def test_breaks_in_callees():
    def inner(x):
        y = torch.exp(x) * 2
        int(y.sum())
        return y - 1

    def outer(x):
        return inner(x + 1) * inner(x * 3)

    fast = check(outer, (X,))
    names = {s["code"] for s in segments(fast)}
    assert names == {"inner", "outer"}


def test_modules_with_a_break():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(5, 5)
            self.seen = []

        def forward(self, x):
            y = torch.relu(self.inner(x))
            self.seen.append(float(y.max()))
            return y * 2

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(3))

        def forward(self, x):
            for block in self.blocks:
                x = block(x) + 1
            return x.sum(-1)

    net = Net().eval()
    fast = compiled(net)
    for n in range(1, 5):
        same(fast(X), net(X))
        assert [len(block.seen) for block in net.blocks] == [2 * n] * 3
    assert fast.counts()["native"] == 0
    with torch.no_grad():
        net.blocks[1].inner.weight.mul_(2)
    same(fast(X), net(X))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 5)

    def forward(self, x):
        y = torch.relu(self.inner(x))
        return y * (2.0 if y.max() > 0 else 1.0) + self.inner.bias


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = Scaled(), nn.ModuleDict({"last": Scaled()})

    def forward(self, x):
        return self.other["last"](self.one(x) + 1)


def enclosed(net):
    return lambda x: net(x) * 1


WAYS = {"module": lambda net: net, "method": lambda net: net.forward, "cell": enclosed}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("make", "are_bound"), [(Named, False), (Scaled, True)])
def test_layers_of_one_class_share_programs_from_the_first_call(make, are_bound, way):
    with torch.no_grad():
        net = make().eval()
        function = way(net)
        fast = compiled(function)
        x = X.clone()
        same(fast(x), function(x))
        count = len(segments(fast))
        parameters = [segment["graph"].count(" param") for segment in segments(fast) if "bias" in segment["graph"]]
        assert parameters and all((number > 0) == are_bound for number in parameters)
        for _ in range(2):
            same(fast(x), function(x))
        assert len(segments(fast)) == count and fast.counts()["captured"] == 1
        for parameter in net.parameters():
            parameter.mul_(2)
        same(fast(x), function(x))


def test_closures_and_cells_across_breaks():
    def f(x):
        total = x * 2

        def add(y):
            nonlocal total
            total = total + y
            return total

        int(total.sum())
        add(x)
        print(end="")
        add(x + 1)
        return total, add(x)

    check(f, (X,))


def test_objects_made_before_a_break():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    def f(x):
        pair = Pair(x + 1, [x * 2])
        same_pair = pair
        both = {"pair": pair}
        int(x.sum())
        pair.b.append(pair.a)
        return both["pair"] is same_pair, len(pair.b), pair.b[0] + pair.b[1]

    check(f, (X,))


def test_arguments_written_before_and_after_a_break():
    def f(x):
        x.add_(1)
        print(end="")
        x.mul_(2)
        return x

    fast = compiled(f)
    for _ in range(4):
        mine, native = X.clone(), X.clone()
        assert fast(mine) is mine
        f(native)
        same(mine, native)


def test_views_across_a_break():
    def f(x):
        y = x * 1
        view = y[:, 1:]
        print(end="")
        view.add_(1)
        return y, view

    fast = compiled(f)
    for _ in range(3):
        y, view = fast(X)
        same((y, view), f(X))
        view.zero_()
        assert y[:, 1:].abs().sum() == 0


def test_grad_mode_across_a_break():
    def f(x):
        before = torch.is_grad_enabled()
        with torch.enable_grad():
            y = x * 2
            print(end="")
            inside = torch.is_grad_enabled()
            y = y + 1
        return y, before, inside, torch.is_grad_enabled()

    check(f, (X,))
    assert not torch.is_grad_enabled()


def test_locals_and_frames_are_whole():
    def f(x):
        unused = x + 7
        y = x * 2
        names = sorted(locals())
        del unused
        return y + 1, names, sys._getframe().f_lineno

    check(f, (X,))


def test_starred_and_keyword_arguments():
    def f(x, *rest, scale=1, **more):
        y = x * scale
        print(end="", flush=False)
        return y + len(rest) + more["shift"]

    def call(x, n):
        return f(x, *range(n), scale=2, shift=n)

    fast = compiled(f)
    for n in (1, 2, 1, 2):
        same(fast(X, *range(n), scale=2, shift=n), call(X, n))


def test_displays_begun_before_a_break():
    def g(*numbers, **names):
        return sum(numbers) + sum(names.values())

    def f(x):
        given, names = [1, 2], {"c": 3}
        call = g(*given, *[int(x.sum() * 0)], a=int(x.sum() * 0), **names, **{"d": len(given)})
        items = [*given, int(x.sum() * 0), *given]
        both = {**names, "n": int(x.sum() * 0), **names}
        loop = [y.sum() * 0 if int(y.sum() * 0) else y + 1 for y in (x, x * 2)]
        return x * call, items, both, loop, {n + int(x.sum() * 0) for n in given}

    check(f, (X,))


def test_keyword_names_stay_with_their_call(capsys):
    def f(x):
        with torch.no_grad():
            print("a", "b" if int(x.sum() * 0) else "c", sep="-", end=";")
            y = x * 2
            print(y.numel(), int(x.sum() * 0), end=";", sep="+")
        return y + 1

    fast = compiled(f)
    for _ in range(6):
        same(fast(X), X * 2 + 1)
    assert capsys.readouterr().out == "a-c;20+0;" * 6
    assert fast.counts()["replayed"] >= 3


def test_fullgraph_refuses():
    fast = C.CompiledFunction(lambda x: print("no") or x + 1, {"fullgraph": True})
    with pytest.raises(RuntimeError, match="print"):
        fast(X)


def test_the_limit_of_recompiles():
    def f(x, n):
        y = x * 2
        print(end="")
        return y + n

    for dynamic, count in ((False, 4), (None, 3)):  # From its second value on the number varies.
        fast = C.CompiledFunction(f, {"recompile_limit": 3, "dynamic": dynamic})
        for n in range(10):
            same(fast(X, n), f(X, n))
        assert len(segments(fast)) == count


def test_threads():
    def f(x):
        y = torch.tanh(x) * 2
        int(y.sum())
        return y + 1

    fast = compiled(f)
    wrong = []

    def work(k):
        with torch.no_grad():
            for _ in range(30):
                x = torch.full((3, k), float(k))
                if not torch.equal(fast(x), f(x)):
                    wrong.append(k)

    in_threads(work, range(1, 5))
    assert not wrong


def test_a_compiled_function_dies():
    def f(x):
        y = x + 1
        print(end="")
        return y * 2

    fast = compiled(f)
    fast(X)
    gone = weakref.ref(fast)
    del fast, f
    gc.collect()
    assert gone() is None


def test_reset_while_running():
    holder = []

    def f(x):
        y = x + 1
        holder[0].reset()
        return y * 2

    fast = compiled(f)
    holder.append(fast)
    for _ in range(3):
        same(fast(X), (X + 1) * 2)


def test_what_a_frame_held_is_dropped():
    class Probe:
        pass

    def f(x):
        probe = Probe()
        dead = weakref.ref(probe)
        y = x * 2
        print(end="")
        del probe
        return y, dead() is None

    fast = compiled(f)
    for _ in range(3):
        same(fast(X)[0], X * 2)
        assert fast(X)[1]


def test_a_context_manager_written_in_c_is_another_object_at_each_call():
    """`__exit__` lies on the stack meanwhile, and moves there when the body returns."""
    lock = threading.Lock()

    def f(x):
        with lock:
            return torch.softmax(x * 2, -1) + 1

    def g(x):
        with lock:
            y = torch.softmax(x * 2, -1) + 1
        return y * 2

    check(f, (X,))
    check(g, (X,))
    assert not lock.locked()


class Box:
    pass


def test_what_a_weak_reference_sees_lives_as_long_as_natively():
    """The variable that holds the object is not read again, and natively holds it until the function ends."""

    def by_call(x):
        box = Box()
        box.value = x * 2
        proxy = weakref.proxy(box)
        return proxy.value + 1

    def over_a_break(x):
        box = Box()
        box.value = x * 2
        ref = weakref.ref(box)
        os.getpid()
        return x + 1, ref() is None

    def by_a_holder(x):
        holder = Box()
        holder.inner = Box()
        holder.inner.value = x * 2
        proxy = weakref.proxy(holder.inner)
        os.getpid()
        return proxy.value + 1

    for function in (by_call, over_a_break, by_a_holder):
        fast = compiled(function)
        for _ in range(3):
            same(fast(X), function(X))
