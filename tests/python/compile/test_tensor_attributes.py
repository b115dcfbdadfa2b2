"""Attributes that a call gives to tensors: made ones, results, arguments and parameters: one graph."""

import pytest
import torch
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


def seen(value, known):
    """What there is to see of a value: its attributes too, and which objects are one."""
    if id(value) in known:
        return ("again", known[id(value)])
    if isinstance(value, torch.Tensor):
        known[id(value)] = len(known)
        own = [(name, seen(one, known)) for name, one in vars(value).items()]
        return type(value).__name__, value.tolist(), value.requires_grad, own
    if isinstance(value, (list, tuple)):
        known[id(value)] = len(known)
        return type(value).__name__, [seen(one, known) for one in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__


def in_one_graph(make, calls=4, captures=1):
    """`make()` gives a function and what it is called with; both are made anew for eager and for braze."""
    (plain, plain_arguments), (ours, arguments) = make(), make()
    compiled = C.CompiledFunction(ours)
    for number in range(calls):
        mine, theirs = arguments(number), plain_arguments(number)
        known_mine, known_theirs = {}, {}
        result, expected = compiled(*mine), plain(*theirs)
        assert seen(mine, known_mine) == seen(theirs, known_theirs)
        assert seen(result, known_mine) == seen(expected, known_theirs)
    counts = compiled.counts()
    assert (counts["captured"], counts["native"]) == (captures, 0), compiled.reasons()
    assert counts["replayed"] == calls - captures
    found = braze.explain(make()[0])(*make()[1](0))
    assert (found.graph_count, found.graph_break_count) == (1, 0), found.break_reasons


def fresh(number):
    return (torch.arange(6.0).reshape(2, 3) + number,)


PROGRAMS = {
    "made": "y = x * 2; y.org = x; return y + y.org",
    "a_name_of_a_method": "y = x * 2; y.index = 3; y.split = 4; return y * y.index + y.split",
    "argument": "x.tag = 5; return x * x.tag",
    "argument_by_setattr": "setattr(x, 'tag', 5); return x * getattr(x, 'tag')",
    "result": "y = x * 2; y.tag = 5; y.text = 'a'; return y",
    "result_with_a_tensor": "y = x * 2; y.aux = x + 1; y.of = [x * 3, 'a', (1, y.aux)]; return y, y.aux",
    "result_that_holds_itself": "y = x * 2; y.me = y; y.all = [y]; return y",
    "argument_holds_a_result": "x.out = x * 2; return x.out",
    "result_holds_the_argument": "y = x * 2; y.x = x; return y",
    "two_names": "a = b = x * 2; a.tag = 1; b.tag += 1; return a, b, a.tag",
    "view_has_none": "y = x * 2; y.tag = 3; return y, y.view(-1), y.detach(), y.clone(), y + 0",
    "written_in_place": "y = x * 2; y.tag = 3; z = y.add_(1); return z, z is y, z.tag",
    "contiguous_is_the_same": "y = x * 2; y.tag = 3; z = y.contiguous(); return z, z is y",
    "has": "y = x * 2; a = hasattr(y, 'tag'); y.tag = 0; return a, hasattr(y, 'tag'), getattr(y, 'no', 7), y",
    "deleted": "y = x * 2; y.tag = 3; y.other = 4; del y.tag; return hasattr(y, 'tag'), y",
    "deleted_by_name": "x.tag = 3; x.other = 4; delattr(x, 'tag'); return hasattr(x, 'tag'), x * 1",
    "not_there": "y = x * 2\n  try: return y.tag\n  except AttributeError: return y + 1",
    "deleted_not_there": "y = x * 2\n  try: del y.tag\n  except AttributeError: return y + 1",
    "dict": "y = x * 2; y.a = 3; y.__dict__['b'] = 4; return y * sum(vars(y).values()), list(y.__dict__)",
    "dict_of_an_argument": "x.a = 3; vars(x)['b'] = 4; return x * sum(x.__dict__.values()), sorted(vars(x))",
    "function": "y = x * 2; y.fn = lambda t: t + y.sum(); return y.fn(x)",
    "constant": "y = torch.ones(3); y.tag = 1; return y",
    "list_of": "ys = [x * i for i in range(3)]\n  for i, y in enumerate(ys): y.at = i\n  return ys[1].at, ys",
    "written_twice": "x.tag = 1; x.tag = x.tag + 1; x.tag = [x.tag]; return x * x.tag[0]",
    "no_grad": "with torch.no_grad(): y = x * 2; y.tag = torch.is_grad_enabled()\n  return y",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name):
    def make():
        space = {"torch": torch}
        exec(f"def f(x):\n  {PROGRAMS[name]}", space)
        return space["f"], fresh

    in_one_graph(make)


def test_parameters():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            nn.init.constant_(self.layer.weight, 0.5)
            nn.init.constant_(self.layer.bias, 0.25)
            self.layer.weight.scale = 0.5

        def forward(self, x):
            for name, parameter in self.named_parameters():
                parameter._is_initialized = name
                parameter.norm = None
            self.layer.weight.rate = self.layer.weight.scale * 2
            return self.layer(x) * self.layer.weight.rate

    def make():
        return Net(), fresh

    in_one_graph(make)
    net = Net()
    braze.compile(net)(*fresh(0))
    assert vars(net.layer.bias) == {"_is_initialized": "layer.bias", "norm": None}


def test_one_tensor_twice():
    def f(x, y):
        x.tag = 1
        y.tag = 2
        return x * x.tag + y

    def make():
        x = torch.ones(3)
        return f, lambda number: (torch.ones(3), torch.ones(3)) if number < 3 else (x, x)

    in_one_graph(make, calls=5, captures=2)


def test_its_dict_beside_it():
    def f(x, d):
        x.tag = 1
        d["tag"] = 2
        return x * x.tag

    compiled = braze.compile(f)
    x = torch.ones(3)
    assert compiled(torch.ones(3), {}).tolist() == [1.0] * 3
    assert compiled(x, x.__dict__).tolist() == [2.0] * 3


def test_counted_on_by_a_later_call():
    def f(x):
        if getattr(x, "seen", 0) >= 2:
            return x * 10
        x.seen = getattr(x, "seen", 0) + 1
        return x + x.seen

    compiled = braze.compile(f)
    mine, theirs = torch.ones(3), torch.ones(3)
    for _ in range(5):
        assert compiled(mine).tolist() == f(theirs).tolist()
        assert vars(mine) == vars(theirs)


def test_sizes_that_vary():
    def f(x):
        x.tag = x.shape[0]
        y = x.contiguous()
        y.other = hasattr(y, "tag")
        name = "third"
        setattr(y, name, x.__dict__["tag"])
        return y * x.tag + y.third, vars(x)["other"]

    compiled = C.CompiledFunction(f)
    for rows in range(2, 9):
        mine, theirs = torch.ones(rows, 3), torch.ones(rows, 3)
        result, expected = compiled(mine), f(theirs)
        assert (result[0].tolist(), result[1]) == (expected[0].tolist(), expected[1])
        assert vars(mine) == vars(theirs) == {"tag": rows, "other": True, "third": rows}
    assert compiled.counts()["native"] == 0


def test_attributes_of_before_with_sizes_that_vary():
    def f(x):
        return x * x.scale + x.shape[0]

    compiled = C.CompiledFunction(f)
    for rows in range(2, 8):
        x = torch.ones(rows, 3)
        x.scale = 3
        assert compiled(x).tolist() == f(x).tolist()
    assert compiled.counts()["captured"] <= 2


def test_results_share_none():
    def f(x):
        y = torch.zeros(2)
        y.tag = []
        return y

    compiled = braze.compile(f)
    one, other = compiled(*fresh(0)), compiled(*fresh(0))
    one.tag.append(1)
    one.more = 2
    third = compiled(*fresh(0))
    assert other.tag == third.tag == [] and not hasattr(third, "more")


def test_behind_a_break():
    def f(x):
        y = x * 2
        y.tag = "a"
        torch.get_num_threads() and print(end="")
        return y + 1 if y.tag == "a" else y

    compiled = C.CompiledFunction(f)
    for number in range(3):
        assert compiled(*fresh(number)).tolist() == f(*fresh(number)).tolist()
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_trained():
    def f(x, w):
        y = x @ w
        y.w = w
        w.uses = getattr(w, "uses", 0) + 1
        return y.sin().sum()

    compiled = braze.compile(f)
    for _ in range(3):
        x = torch.randn(3, 3)
        mine, theirs = (torch.eye(3).requires_grad_() for _ in range(2))
        compiled(x, mine).backward()
        f(x, theirs).backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
        assert vars(mine) == vars(theirs) == {"uses": 1}


def test_another_setattr():
    def f(x):
        x.tag = 1
        return x * 2

    compiled = braze.compile(f)
    compiled(*fresh(0))
    noted = []

    def note(self, name, value):
        noted.append(name)
        object.__setattr__(self, name, value)

    torch.Tensor.__setattr__ = note
    try:
        compiled(*fresh(1))
    finally:
        del torch.Tensor.__setattr__
    assert noted == ["tag"]


def test_a_property_of_that_name():
    def f(x):
        x.tag = 1
        return x * 2

    compiled = braze.compile(f)
    compiled(*fresh(0))
    noted = []
    torch.Tensor.tag = property(None, lambda self, value: noted.append(value))
    try:
        compiled(*fresh(1))
    finally:
        del torch.Tensor.tag
    assert noted == [1]
