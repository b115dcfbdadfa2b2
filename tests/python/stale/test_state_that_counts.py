"""Numbers that each call reads and leaves as others, wherever they are kept: three programs for all calls."""

import collections
import types

import pytest
import torch
from staleness import Freezer

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

PROGRAMS = {
    "a global": """
n = 0
def f(x):
  global n
  n += 1
  return x * 2
""",
    "globals of both kinds": """
n, t = 0, 0.5
def f(x):
  global n, t
  n += 1; t += 0.5
  return x * t + n
""",
    "globals that change places": """
a, b = 2, 10
def f(x):
  global a, b
  a, b = b, a + 1
  return x * a
""",
    "a global that another function reads": """
n = 5
def g(): return n
def f(x):
  global n
  n += 2
  return x * g() * globals()['n']
""",
    "two entries of a dict": """
s = {'step': 0, 'total': 0.5}
def f(x):
  s['step'] += 1; s['total'] += 0.5
  return x * s['total']
""",
    "an entry that is read after another was written": """
s = {'a': 2, 'b': 3, 'c': 7}
def f(x):
  s['a'] += 1
  y = x * s['b']
  s['b'] += s['a']
  return y, list(s.values()), dict(s)
""",
    "entries that move": """
s = collections.OrderedDict(a=2, b=3)
def f(x):
  s['a'] += 1; s.move_to_end('a')
  s['b'] += 2; s.move_to_end('b')
  return x * s['b'], list(s)
""",
    "entries replaced as a whole": """
s = {'a': 3, 'b': 4}
def f(x):
  a, b = s['a'], s['b']
  s.clear()
  s.update({'b': b + a}, a=a + 1, c=b)
  key, c = s.popitem()
  return x * c, key
""",
    "slots": """
class Counts:
  __slots__ = ('n', 't')
k = Counts(); k.n = 3; k.t = 0.5
def f(x):
  k.n += 1; k.t *= 0.5
  return (x * k.t + k.n, k.n)
""",
    "a Counter that counts items": """
c = collections.Counter()
def f(x):
  c.update(['a', 'b', 'a'])
  return x * c['a']
""",
    "a Counter that counts by name": """
c = collections.Counter(n=2, m=2)
def f(x):
  c.update(n=x.shape[0], m=1)
  return x * 2
""",
    "a dict with methods": """
class Log(collections.OrderedDict):
  def touch(self, key, by): self[key] = self.get(key, 2) + by; self.setdefault('first', by)
log = Log()
def f(x):
  log.touch('n', x.shape[0]); log.touch('m', x.shape[1])
  return x * log['n']
""",
    "a list with methods": """
class Stack(list):
  def push(self, item): self.append(item); super().append(item + 1)
n = 3
def f(x):
  global n
  n += 1
  s = Stack(); s.push(n); s.push(n * 2); s.reverse()
  return x * s[0], s, s.pop()
""",
}


def made(source):
    module = types.ModuleType("counts")
    module.__dict__.update(collections=collections, torch=torch)
    exec(compile(source, "<counts>", "exec"), module.__dict__)
    return module


def state(module):
    kept = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    return [(name, Freezer().freeze(value)) for name, value in kept.items() if not callable(value)]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
@torch.no_grad()
def test_state_that_counts(name, dynamic):
    plain, ours = made(PROGRAMS[name]), made(PROGRAMS[name])
    compiled = braze.compile(ours.f, dynamic=dynamic, fullgraph=True)
    for call in range(8):
        x = torch.full((4, 6), float(call))
        assert Freezer().freeze(compiled(x)) == Freezer().freeze(plain.f(x))
        assert state(ours) == state(plain)
    counts = compiled.counts()
    assert counts["captured"] <= 3 and counts["native"] == 0, counts
