"""Numbers, lengths and text that are others at each call: after some calls nothing is captured any more.

What the elements of tensors decide, and what follows of that in Python, is another value nearly every time. Where a
program would be for one of the values alone, the graph ends before what asks for it.
"""

import collections

import pytest
import torch
from compiling import compiled, same, whole_numbers
from test_breaks import segments
from test_resumed_loops import X, function_of

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def ends(fast):
    return {segment["break"]["id"] for segment in segments(fast) if segment["break"]}


MANY = {
    "a dict's key": "k = t[0].item(); y = x + table[k]",
    "a set": "k = t[0].item(); seen.add(k); y = x * 2 + len(seen)",
    "text": "k = t[0].item(); log.append(f'{k}'); y = x * 2",
    "range": "k = t[0].item()\n    for _ in range(k): x = x + 0.5\n    y = x",
    "sorted": "L = sorted(t.tolist()); y = x + rows[L[1]]",
    "Python's": "L = t.tolist(); n = sum(1 for a in L for b in L if a < b); y = x * 2 + n",
    "a list as index": "y = x + rows[t.tolist()].sum(0)",
    "groups": (
        "g = collections.defaultdict(list)\n    for i, k in enumerate(t.tolist()): g[k].append(i)\n"
        "    y = x + len(g)"
    ),
    "a list that grows": (
        "out = []\n    for k in range(9):\n        x = x * 0.9; out.append(x)\n"
        "        if x.sum() < t[1]: break\n    y = torch.stack(out).sum(0)"
    ),
    "in a function": "k = t[0].item(); y = look_up(x, k)",
    "by keyword": "k = t[0].item(); y = look_up(k=k, x=x)",
    "in a method": "k = t[0].item(); y = holder.look_up(x, k)",
    "in a with": "k = t[0].item()\n    with torch.no_grad():\n        y = x + table[k]",
    "in a try": "k = t[0].item()\n    try: y = x + table[k - 3]\n    except KeyError: y = x - 1",
    "in a comprehension": "L = t.tolist(); y = x + sum([table[k] for k in L])",
    "an iterator": "it = iter(t.tolist()); y = x + table[next(it)] + table[next(it)]",
    "words": "y = x + x.sum().item(); y = y * len(words[int(t[0])])",
}


class Holder:
    def __init__(self, table):
        self.table = table

    def look_up(self, x, k):
        x = torch.tanh(x)
        return x + self.table[k]


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("name", MANY)
def test_numbers_that_decide(name, form):
    source = f"""
def look_up(x, k):
    x = torch.tanh(x)
    return x + table[k]

def f(x, t):
    x = x + 1
    {MANY[name]}
    return torch.tanh(y) * 3
"""

    def names():
        table = {k: k * 0.5 for k in range(40)}
        words = ["a" * (k % 5) for k in range(40)]
        rows = torch.linspace(-1, 1, 200).reshape(40, 5)
        return dict(
            table=table, words=words, rows=rows, holder=Holder(table), collections=collections, seen=set(), log=[]
        )

    mine, other = names(), names()
    fast, function = compiled(function_of(source, form, **mine)), function_of(source, form, **other)
    captured = []
    for call in range(20):
        t = whole_numbers(call, 9, 4)
        before = fast.counts()["captured"]
        same(fast(X, t), function(X, t))
        captured.append(fast.counts()["captured"] - before)
    same([mine["seen"], mine["log"]], [other["seen"], other["log"]])
    assert captured[14:] == [0] * 6, captured
    # What has nothing to do with the number is replayed.
    assert fast.counts()["replayed"] > 0


def test_few_values_stay_programs():
    """Each of them is seen again."""

    def f(x, t):
        x = x + 1
        k = t.item()
        y = x + {3: 1.0, 4: 2.0, 5: 3.0}[k]
        return torch.tanh(y)

    fast = compiled(f)
    for call in range(12):
        t = torch.tensor(3 + call // 2 % 3)
        same(fast(X, t), f(X, t))
    assert "one_of_many" not in ends(fast)


@pytest.mark.parametrize("form", ["cold", "specialised"])
def test_states_that_are_kept_or_not(form):
    """Which items of the list are one tensor is decided by the data: of seven steps there are 128 ways."""

    def chain(x, draws):
        states = []
        for draw in draws:
            y = x * 0.75 + draw
            if y[0] > x[0]:
                x = y
            states.append(x)
        return torch.stack(states) * 2 + 1

    def arguments(number):
        return torch.zeros(3), torch.randn(7, generator=torch.Generator().manual_seed(number))

    for number in range(16 if form == "specialised" else 0):
        chain(*arguments(number))
    fast = compiled(chain)
    for number in range(40):
        same(fast(*arguments(number)), chain(*arguments(number)))
    assert fast.counts()["captured"] < 12
    assert len(segments(fast)) < 14
    assert fast.counts()["native"] == 0


def test_few_ways_to_be_one_tensor_stay_one_graph_each():
    def both(x, pair):
        y = x + 1
        y.sum().item()
        return y * pair[0] + pair[1]

    a, b = torch.randn(2, 3)
    fast = compiled(both)
    for number in range(12):
        pair = [a, b] if number % 2 else [a, a]
        same(fast(a, pair), both(a, pair))
    assert {segment["break"]["id"] for segment in segments(fast) if segment["break"]} == {"item"}
    assert fast.counts() == {"captured": 2, "replayed": 10, "native": 0}


def test_text_that_is_another_at_each_call():
    def f(x, name):
        x = x * 2
        total = x.sum().item()
        line = f"{name}: {total:.1f}"
        x = torch.tanh(x + 1)
        return x, line

    fast = compiled(f)
    captured = []
    for call in range(10):
        before = fast.counts()["captured"]
        same(fast(X, f"step {call}"), f(X, f"step {call}"))
        captured.append(fast.counts()["captured"] - before)
    assert captured[6:] == [0] * 4, captured
    assert "one_of_many" in ends(fast)


def test_layers_with_numbers_of_their_own_stay_one_graph():
    class Layer(torch.nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number, self.sums = number, []

        def forward(self, x):
            x = x + self.number * 0.1
            self.sums.append(x.sum().item())
            return torch.tanh(x) * self.number

    model = torch.nn.Sequential(*[Layer(k) for k in range(5)])
    fast = compiled(model.forward)
    for rows in (3, 3, 4, 2, 7, 5, 4, 3):
        x = torch.linspace(-1, 1, 5 * rows).reshape(rows, 5)
        same(fast(x), model.forward(x))
    assert "one_of_many" not in ends(fast)


def test_with_gradients():
    def f(x, t):
        y = x.sin()
        k = t.item()
        return (y * {k: 2.0}[k]).sum()

    fast = compiled(f)
    with torch.enable_grad():
        for call in range(9):
            t = torch.tensor(call + 3)
            mine, other = (X.clone().requires_grad_() for _ in range(2))
            fast(mine, t).backward()
            f(other, t).backward()
            same(mine.grad, other.grad)


# ---- calls that are one graph

WHOLE = {
    "text": ("return x * 2 + len(a), a + '!'", lambda call: f"name {call * 37 % 101}"),
    "text that grows": ("x = x + 1; log[0] += f'{len(log[0])},'; return x * 2 + 1", None),
    "text in a global": ("global line; line = line + 'ab'; return torch.tanh(x * 2) + len(line)", None),
    "a list that grows": ("seen.append(x.tanh()); return torch.stack(seen).mean(0) * 2", None),
    "a dict that grows": ("by_step[len(by_step)] = x + 1; return torch.tanh(sum(by_step.values()) * 0.1)", None),
    "keys": ("return torch.tanh(x) * table[a] + 1", lambda call: f"w{call * 7 % 40}"),
    "pairs": ("return torch.tanh(x) * pairs[a] + 1", lambda call: (call % 8, f"w{call * 7 % 40}")),
    "in a list": ("return torch.tanh(x) * table[a[1]] + 1", lambda call: ["w", f"w{call * 7 % 40}"]),
    "words": (
        "x = x + 1; ids = [len(w) for w in a.split()]; return x * torch.tensor(ids).sum()",
        lambda call: " ".join("abc"[: 1 + (call + k * k) % 3] for k in range(call % 4 + 2)),
    ),
    "a range": ("x = x + 1\n    for k in range(a): x = x * 0.5 + k\n    return x", lambda call: 3 + call),
}


# Those of the last few calls would be a program each, and then no more.
LENGTHS_AND_DECISIONS = ("a list that grows", "a dict that grows", "a range")


def names_of_whole_calls():
    table = {f"w{k}": k * 0.25 for k in range(40)}
    pairs = {(k, word): number + k for k in range(8) for word, number in table.items()}
    return {"log": [""], "line": "", "seen": [], "by_step": {}, "table": table, "pairs": pairs}


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_calls(name, dynamic, form):
    body, given = WHOLE[name]
    mine, other = names_of_whole_calls(), names_of_whole_calls()
    source = f"def f(x, a=None):\n    {body}"
    function, plain = function_of(source, form, **mine), function_of(source, form, **other)
    fast, captured = braze.compile(function, dynamic=dynamic), []
    for call in range(26):
        arguments = (X, given(call)) if given else (X,)
        before = fast.counts()["captured"]
        same(fast(*arguments), plain(*arguments))
        captured.append(fast.counts()["captured"] - before)
    for key in mine:
        same(function.__globals__[key], plain.__globals__[key])
    most = 18 if name in LENGTHS_AND_DECISIONS else 11
    assert captured[most:] == [0] * (26 - most), captured
    assert "the recompile limit" not in fast.reasons() and "one_of_many" in ends(fast)
    assert fast.counts()["replayed"] > 0


def test_one_graph_is_asked_for():
    fast = braze.compile(lambda x, a: x * 2 + len(a), fullgraph=True)
    for call in range(7):
        same(fast(X, "a" * call), X * 2 + call)
    assert "one_of_many" not in ends(fast) and fast.counts()["captured"] == 7


def test_a_history_that_is_full_stays_one_graph():
    history = collections.deque(maxlen=6)

    def f(x):
        history.append(x.tanh())
        return torch.stack(list(history)).mean(0)

    fast = braze.compile(f)
    for _ in range(10):
        fast(X)
    assert fast.counts() == {"captured": 7, "replayed": 3, "native": 0} and "one_of_many" not in ends(fast)


def test_few_values_of_whole_calls_stay_programs():
    fast = braze.compile(lambda x, kind: x * 2 + len(kind))
    for kind in ("a", "a", "bcd", "bcd", "ef", "ef", "ghij", "ghij", "klmno", "a", "bcd"):
        same(fast(X, kind), X * 2 + len(kind))
    assert "one_of_many" not in ends(fast) and fast.counts()["captured"] == 5


def test_whole_calls_with_gradients():
    def f(x, name):
        return (x.sin() * len(name)).sum() + x.exp().mean()

    fast = braze.compile(f)
    with torch.enable_grad():
        for call in range(12):
            mine, other = (X.clone().requires_grad_() for _ in range(2))
            fast(mine, "n" * call).backward()
            f(other, "n" * call).backward()
            same(mine.grad, other.grad)
