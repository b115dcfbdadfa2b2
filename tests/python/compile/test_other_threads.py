"""What other threads do to the containers that a captured run changes, and what they see of it meanwhile."""

import io
import sys
import threading
import types

import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture(autouse=True)
def quick_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with torch.no_grad():
        yield
    sys.setswitchinterval(before)


def module(body, count=60, **names):
    made = types.ModuleType("__main__")
    made.__dict__.update(names, torch=torch)
    lines = body.format(work="\n".join(["  x = torch.sin(x)"] * count))
    exec(compile(lines, "<threads>", "exec"), made.__dict__)
    return made


def beside(work, run):
    """Calls `run` while another thread calls `work` again and again; how often it did."""
    stop, turns, errors = threading.Event(), [0], []

    def loop():
        try:
            while not stop.is_set():
                work(turns[0])
                turns[0] += 1
                if turns[0] % 20 == 0:
                    stop.wait(1e-5)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        run()
    finally:
        stop.set()
        thread.join()
    assert not errors, errors
    return turns[0]


def capture(body, **names):
    for _ in range(4):
        f = braze.compile(module(body, **names).f)
        for _ in range(2):
            f(torch.ones(4))


@pytest.mark.parametrize(
    "body",
    [
        "def f(x):\n  shared.append(-1)\n{work}\n  return x",
        "def f(x):\n  shared.extend([-1])\n{work}\n  return x",
        "def f(x):\n  shared.insert(0, -1)\n{work}\n  return x",
        "def f(x):\n  shared.append(-1)\n{work}\n  shared.append(-2)\n  return x",
    ],
)
def test_what_others_append_stays(body):
    shared = []
    turns = beside(shared.append, lambda: capture(body, shared=shared))
    assert [v for v in shared if v >= 0] == list(range(turns)), "nothing is lost, and nothing moved"
    assert sum(v == -1 for v in shared) == 8


@pytest.mark.parametrize(
    "body",
    [
        "def f(x):\n  shared['own'] = 1\n{work}\n  return x",
        "def f(x):\n  shared['own'] = 1\n{work}\n  del shared['own']\n  return x",
        "def f(x):\n  shared.pop('first', None); shared['first'] = 1\n{work}\n  return x",
    ],
)
def test_what_others_store_stays(body):
    shared = {"first": 0}
    turns = beside(lambda i: shared.__setitem__(i, i), lambda: capture(body, shared=shared))
    assert [k for k in shared if not isinstance(k, str)] == list(range(turns))


def test_what_others_add_to_a_set_stays():
    shared = set()
    body = "def f(x):\n  shared.add('own')\n{work}\n  return x"
    turns = beside(shared.add, lambda: capture(body, shared=shared))
    assert shared == {"own", *range(turns)}


def test_attributes_that_others_set_stay():
    class Box:
        pass

    box = Box()
    body = "def f(x):\n  box.own = 1\n{work}\n  return x"
    turns = beside(lambda i: setattr(box, f"a{i % 50}", i), lambda: capture(body, box=box))
    assert max(v for k, v in vars(box).items() if k != "own") == turns - 1


def test_nobody_sees_a_tracer_or_half_of_a_change():
    class Slots:
        __slots__ = ("value",)

    class Box:
        pass

    box, slots, cache, row = Box(), Slots(), {}, [None]
    box.left = box.right = 0
    slots.value = None
    body = (
        "def f(x):\n  box.left = box.left + 1\n  x = torch.cos(x)\n  cache['t'] = x\n  row[0] = x\n"
        "  slots.value = x\n  Box.kept = x\n{work}\n  box.right = box.right + 1\n  return x\n"
    )
    names = {"box": box, "Box": Box, "slots": slots, "cache": cache, "row": row}
    seen = []

    def look(_):
        for value in (cache.get("t"), row[0], slots.value, getattr(Box, "kept", None)):
            if value is not None:
                seen.append(value.sum().item())  # A tracer has no data.
        before = box.right
        seen.append(float(box.left < before))

    beside(look, lambda: capture(body, **names))
    assert all(v == v for v in seen)
    assert box.left == box.right == 8


def test_captures_of_several_threads_change_one_list():
    shared = []
    body = "def f(x):\n  shared.append(1)\n{work}\n  shared.append(2)\n  return x"
    threads = [threading.Thread(target=capture, args=(body,), kwargs={"shared": shared}) for _ in range(3)]
    with torch.no_grad():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(shared) == [1] * 24 + [2] * 24


@pytest.mark.parametrize(
    "statement",
    [
        "y = len(sorted(map(str, world)))",
        "y = world[3]",
        "y = sum(world.values())",
        "y = len(list(map(world.get, world)))",
    ],
)
def test_c_code_sees_what_the_function_has_changed(statement):
    """Another thread exists, and does nothing."""
    stop = threading.Event()
    waiting = threading.Thread(target=stop.wait)
    waiting.start()
    try:
        names = {}
        exec(
            f"def f(x, world):\n  world['a'] = 2.0\n  {statement}\n  return torch.relu(x) * y",
            {"torch": torch},
            names,
        )
        ours, theirs = (dict(b=1.0, c=3.0) | {3: 4.0} for _ in range(2))
        compiled = braze.compile(names["f"])
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(2), ours), names["f"](torch.ones(2), theirs))
            assert ours == theirs
    finally:
        stop.set()
        waiting.join()


@pytest.fixture
def sleeper():
    """Another thread exists, and does nothing."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    yield
    stop.set()
    thread.join()


WORLD = """
import collections, logging
log, table, members = [1], {'a': 1, 'b': 2}, {1, 2}
rows, count = collections.defaultdict(list), 0
ordered = collections.OrderedDict(a=1, b=2)
class Kept:
    made = 0
class Slots:
    __slots__ = ('value',)
kept, slots = Kept(), Slots()
slots.value = 0
def cell():
    total = 0
    def add(y):
        nonlocal total
        total = total + 1
        return y * total
    return add
add = cell()
def f(x):
    global count
    CHANGE
    y = torch.sin(x) * 2
    AGAIN
    return torch.cos(y) + 1
def state():
    return log, table, members, dict(rows), count, list(ordered.items()), vars(kept), Kept.made, slots.value
"""

CHANGES = [
    "count += 1",
    "log.append(x.shape[0])",
    "log.insert(0, 3)",
    "log[0] += 1",
    "log.sort()",
    "log.pop() if len(log) > 1 else log.extend([4, 5])",
    "table['new'] = len(table)",
    "table['a'] += 1",
    "table.update(c=3)",
    "table.pop('a', None); table['a'] = 1",
    "table.clear(); table['a'] = 2",
    "table.setdefault('z', [])",
    "members.add(len(members) + 5)",
    "members.discard(1)",
    "rows['q'].append(1)",
    "ordered.move_to_end('a')",
    "ordered.popitem(); ordered['b'] = 3",
    "kept.value = x.shape[0]",
    "kept.other = kept.made",
    "Kept.made += 1",
    "slots.value += 1",
    "x = add(x)",
    "for key in table: table[key] += 1",
]


def _world(change, again):
    made = types.ModuleType("__main__")
    made.torch = torch
    exec(compile(WORLD.replace("CHANGE", change).replace("AGAIN", again), "<world>", "exec"), made.__dict__)
    return made


def _check(change, again):
    ours, theirs = _world(change, again), _world(change, again)
    compiled = C.CompiledFunction(ours.f)
    for _ in range(4):
        assert torch.allclose(compiled(torch.ones(2, 2)), theirs.f(torch.ones(2, 2)))
        assert ours.state() == theirs.state()
    return compiled


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_one_graph_beside_a_thread(change, sleeper):
    for again in ("pass", change):
        compiled = _check(change, again)
        breaks = [s["break"]["reason"] for s in compiled.report()["segments"] if s["break"]]
        assert not breaks and not compiled.reasons()


# C code, or an iterator, that has in its hands what the function changes, while operators run.
HELD = [
    "log.sort(key=lambda n: torch.sin(x).shape[0] + n)",
    "log.append(2); log.sort(key=lambda n: (torch.sin(x * n), -n)[1])",
    "log.append(2); x = x + sum(map(lambda n: (torch.sin(x), n)[1], log))",
    "log.append(2); x = x + sum(t.shape[0] for t in map(torch.full, [(n,) for n in log], log))",
    "log.insert(0, 2); log.extend((torch.sin(x), n)[1] for n in range(2))",
    "for n in log:\n        if len(log) < 6: log.append(n + 1)\n        x = torch.sin(x) + n",
    "for n in list(log): log.remove(n); x = torch.sin(x) + n; log.append(n + 1)",
    "for n in list(table): del table[n]; x = torch.sin(x); table[n] = 1",
    "keys = iter(table); table.pop('b'); x = torch.sin(x); table['b'] = 4; x = x + len(list(keys))",
    "for n in table: table[n] = table[n] + 1; x = torch.sin(x) * table[n]",
    "for n, m in table.items(): table[n] = m + 1; x = torch.sin(x) * m",
    "table['a'] = 5; x = x * max(table, key=lambda k: (torch.sin(x), table[k])[1]).count('a')",
    "table['t'] = torch.sin(x).shape; x = x.reshape(table['t'])",
    "log.append(2); x = x + torch.tensor(log).sum()",
    "log.append(2); x = x + torch.stack([torch.ones(2, 2) * n for n in log]).sum(0)",
    "members.add(7); x = x + sum(torch.ones(n).sum() for n in sorted(members))",
]


@pytest.mark.parametrize("change", HELD)
def test_c_code_has_in_its_hands_what_changes(change, sleeper):
    for again in ("pass", change):
        _check(change, again)


def test_what_others_store_beside_the_functions_own_is_kept():
    """The function changes one entry, another thread others: neither is undone, and neither ends the capture."""
    shared = {"own": 0}
    body = "def f(x):\n  shared['own'] += 1\n{work}\n  return x"
    made = module(body, shared=shared)
    compiled = C.CompiledFunction(made.f)
    turns = beside(lambda i: shared.__setitem__(i, i), lambda: [compiled(torch.ones(4)) for _ in range(4)])
    assert shared["own"] == 4
    assert [k for k in shared if k != "own"] == list(range(turns))
    assert not any(s["break"] for s in compiled.report()["segments"])


def test_the_thread_of_a_progress_bar_sees_nothing():
    """tqdm keeps one beside every loop that has a bar."""
    bar = pytest.importorskip("tqdm").tqdm(total=3, disable=False, file=io.StringIO())
    assert any(type(thread).__name__ == "TMonitor" for thread in threading.enumerate())
    weight = torch.nn.Parameter(torch.randn(4))
    optimizer = torch.optim.SGD([weight], 0.1, momentum=0.9)
    step = braze.compile(optimizer.step)
    for _ in range(6):
        weight.grad = torch.ones(4)
        step()
        bar.update()
    bar.close()
    assert step.counts()["replayed"] >= 3 and step.counts()["native"] <= 1, step.reasons()


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "RMSprop"])
def test_states_of_several_parameters(kind, sleeper):
    """A look-up by a tensor runs Python code, which is not given what the entry holds."""
    weights = [torch.nn.Parameter(torch.ones(4)) for _ in range(3)]
    theirs = [torch.nn.Parameter(torch.ones(4)) for _ in range(3)]
    optimizers = [getattr(torch.optim, kind)(each, 0.1, **_OPTIONS.get(kind, {})) for each in (weights, theirs)]
    step = braze.compile(optimizers[0].step)
    for k in range(6):
        for a, b in zip(weights, theirs, strict=True):
            a.grad, b.grad = torch.ones(4) * k, torch.ones(4) * k
        step()
        optimizers[1].step()
        for a, b in zip(weights, theirs, strict=True):
            torch.testing.assert_close(a, b)
    assert step.counts()["replayed"] >= 3 and step.counts()["native"] <= 1, step.reasons()


_OPTIONS = {"SGD": {"momentum": 0.9}, "RMSprop": {"momentum": 0.9}}


def test_entries_by_tensors_that_others_read_and_write():
    """What older entries hold is changed between look-ups by tensors; another thread sees all of it or nothing."""
    keys = [torch.ones(4) * k for k in range(3)]
    shared = {key: {"n": 0, "m": 0} for key in keys}
    changes = "state = shared[key]; state['n'] += 1; state['m'] += 1"
    body = "def f(x):\n  for key in keys: " + changes + "\n{work}\n  return x"
    made = module(body, 20, shared=shared, keys=keys)
    compiled = C.CompiledFunction(made.f)
    torn = []

    def look(turn):
        for key in keys:
            shared[key][f"other{turn % 7}"] = turn
            values = dict(shared[key])
            if values["n"] < values["m"]:
                torn.append(values)

    beside(look, lambda: [compiled(torch.ones(4)) for _ in range(8)])
    assert all(entry["n"] == entry["m"] == 8 for entry in shared.values())
    assert not torn
    assert compiled.counts()["captured"] + compiled.counts()["replayed"] == 8, compiled.reasons()
