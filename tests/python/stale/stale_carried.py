"""Values of all kinds that a function makes, or is given, and uses after a break: what is carried over must be what
it was, made of what the world holds by now.

One line a value: how it is made of `x`, `y` and the globals, and how it is used as `v`.
"""

from stale_programs import register

WORLD = """
import re, array, fractions, decimal, datetime, pathlib, random, contextvars
import numpy as np
k = 2
g = {"a": 1, "l": [3, 4]}
class Thing:
  l = []
  def __init__(self, k): self.k = k
  def m(self): return self.k * 10
class Sub(Thing): pass
class Slots:
  __slots__ = ("k", "z")
  def __init__(self, k): self.k = k
@dataclasses.dataclass
class Data:
  a: int
  b: list
@dataclasses.dataclass(frozen=True)
class Frozen:
  a: int
NT = collections.namedtuple("NT", "a b")
class Color(enum.Enum):
  A = 1
  B = 2
def gen(n):
  for i in range(n): yield i + k
def make(n):
  def inner(): return n
  return inner
def helper(a, b=1): return a * b + k
def cyclic(n):
  l = [n]; l.append(l)
  return l
def caught(n):
  try:
    try: raise KeyError(n)
    except KeyError: raise ValueError(n)
  except ValueError as e: return e
th = Thing(5)
m = nn.Linear(4, 4)
"""

VALUES = """
[x, y, k]; v[2], len(v), v[0] is x, v[1] is y
(x, [y], {"k": k}); v[2]["k"], v[1][0] is y
{"a": x, "b": [y, k]}; v["b"][1], list(v), v["a"] is x
{k, 2, 3}; sorted(v), k in v
frozenset([k, 1]); sorted(v), len(v)
collections.deque([x, k], 3); v[1], v.maxlen, v[0] is x
collections.OrderedDict(a=k, b=x); list(v), v["a"], type(v).__name__
collections.defaultdict(list, a=[k]); v["a"], v["zz"], len(v)
collections.Counter("a" * k); v["a"], v.most_common(1)
collections.ChainMap({"a": k}, g); v["a"], len(v.maps), v.maps[1] is g
range(k, 9, 2); list(v), v[1]
slice(k, None, 2); x[v], v.start
iter([k, 2, 3]); next(v), list(v)
iter((k, x)); next(v), next(v) is x
iter({"a": k, "b": 2}); next(v), list(v)
iter(g); next(v), list(v)
iter(g.items()); next(v), list(v)
iter(g["l"]); next(v), list(v)
iter(range(k)); list(v)
reversed([k, 2]); next(v), list(v)
enumerate([k, x]); next(v)[1], next(v)[0]
enumerate(g["l"], k); next(v), list(v)
zip([k, 2], g["l"]); next(v), list(v)
map(lambda q: q * k, [1, 2]); next(v), list(v)
map(abs, g["l"]); list(v)
filter(None, [0, k]); list(v)
itertools.chain([k], [2]); next(v), list(v)
itertools.count(k); next(v), next(v)
itertools.cycle([k, 2]); next(v), next(v), next(v)
itertools.islice([1, 2, 3, 4], k); list(v)
itertools.repeat(k, 2); list(v)
itertools.accumulate([k, 2, 3]); next(v), list(v)
itertools.product([k], [1, 2]); next(v), list(v)
itertools.combinations([1, 2, k], 2); next(v), list(v)
itertools.zip_longest([k], [1, 2]); list(v)
itertools.pairwise([k, 2, 3]); next(v), list(v)
itertools.groupby([k, k, 2]); [(a, list(b)) for a, b in v]
itertools.starmap(pow, [(k, 2)]); list(v)
itertools.takewhile(lambda q: q < 3, [k, 2, 9]); list(v)
itertools.compress([k, 2], [1, 0]); list(v)
itertools.tee([k, 2])[1]; list(v)
(q * k for q in [1, 2]); next(v), list(v)
gen(k); next(v), list(v)
gen(2); v.send(None), v.close(), list(v)
lambda q: q * k + y.sum(); v(1), v.__name__
make(k); v(), v.__closure__[0].cell_contents
functools.partial(helper, k, b=2); v(), v.args, v.keywords
functools.partial(torch.mul, x); v(k), v.args[0] is x
helper; v(k), v is helper
Thing(k).m; v(), v.__self__.k
Thing(k); v.k, v.m(), type(v) is Thing
Sub(k); v.k, v.m(), isinstance(v, Thing)
Slots(k); v.k, hasattr(v, "z")
Data(k, [x]); v, v.b[0] is x, v == Data(k, v.b)
Frozen(k); v, hash(v) == hash(Frozen(k))
NT(k, x); v.a, v._asdict()["b"] is x, v._fields
types.SimpleNamespace(a=k, b=x); v.a, v.b is x
Color; v.A.value, len(v)
Thing; v(k).k
type(x); v is torch.Tensor
k; v + 1
float(k); v / 3, v.hex()
complex(k, 1); v * 2
10 ** 20 + k; v - 10 ** 20
str(k) * 3; v.upper(), len(v)
b"ab" * k; v, v[0]
bytearray(b"a" * k); v, v.append(3), len(v)
memoryview(b"abc")[k:]; bytes(v)
None; v is None
...; v is Ellipsis
NotImplemented; v is NotImplemented
True and k; v
[[k] * 2] * 2; v[0] is v[1], v
g; v is g, v["l"]
g.keys(); sorted(v), len(v)
g.items(); len(v)
types.MappingProxyType({"a": k}); v["a"]
th; v is th, v.k
th.m; v(), v == th.m
th.__dict__; v["k"], v is th.__dict__
th.l; v is th.l, len(v)
ValueError("a", k); v.args, str(v), type(v).__name__
caught(k); v.args, type(v.__context__).__name__
KeyError; v is KeyError
operator.itemgetter(k % 2); v([5, 6])
operator.attrgetter("k"); v(th)
operator.methodcaller("m"); v(th)
re.compile("a" * k); v.pattern, v.match("aaa").end()
weakref.ref(th); v() is th
weakref.proxy(th); v.k
property(lambda s: k); v.fget(0)
staticmethod(helper); v(k), v.__func__ is helper
torch.float64 if k > 2 else torch.float32; v, x.to(v)
x.dtype; v
x.shape; v, v[0] + k, type(v).__name__
x.size(0) + k; v
x.device; v, v.type
x.stride(); v
x[k:]; v, v._base is x
x.view(2, 2).t(); v, v.stride()
y.view(2, 2).t(); v, v.stride()
y[:k]; v, v._is_view()
y.expand(k, 4); v, v.stride()
y.detach(); v, v.requires_grad
y.unbind(0); len(v), v[k]
y.chunk(2); v[1], len(v)
y.max(0); v.values, v.indices, type(v).__name__
y.sort(descending=True); v.values, v.indices
torch.Size([k, 2]); v, v.numel()
torch.tensor([k, 2]); v, v.dtype
torch.nn.Parameter(torch.ones(k)); v, v.requires_grad
torch.nn.Linear; v is nn.Linear
m; v is m, v(x)
m.weight; v is m.weight
list(m.parameters()); v[0] is m.weight, len(v)
dict(m.named_parameters()); v["bias"] is m.bias
m.forward; v(x)
torch.sin; v(x)
x.add; v(k)
torch.no_grad(); type(v).__name__
contextlib.ExitStack(); type(v).__name__, v.close()
contextlib.nullcontext(k); v.__enter__()
copy.copy(g); v == g, v is g, v["l"] is g["l"]
copy.deepcopy(g["l"]); v == g["l"], v is g["l"]
vars(th); v["k"]
[th, th]; v[0] is v[1], v[0] is th
cyclic(k); v[0], v[1] is v
locals(); sorted(v), v["y"] is y
globals()["g"]; v is g
super(Sub, Sub(k)); v.m()
int | str; isinstance(k, v)
array.array("i", [k, 2]); v[0], v.tolist()
fractions.Fraction(k, 3); v, v + 1
decimal.Decimal(k) / 3; v
datetime.date(2020, 1, k); v.isoformat()
pathlib.PurePosixPath("a") / str(k); v, v.name
np.arange(k); v.tolist(), v.dtype.name
np.float32(k); v * 2
random.Random(k); v.random()
contextvars.ContextVar("c", default=k); v.get()
functools.cmp_to_key(lambda a, b: (a > b) - (a < b)); sorted([3, k], key=v)
functools.lru_cache(lambda q: q + k); v(1), v.cache_info().misses
type("Made", (Thing,), {"z": k}); v.z, v(1).k
collections.namedtuple("Q", "a")(k); v.a, type(v).__name__
enum.Enum("E", "P Q"); len(v), v.P.name
""".strip().split("\n")

CHANGES = ["k = 3", "k = 1", "g['l'].append(7); th = Thing(6); g['b'] = 2"]

# name: arguments of the calls, the function
WAYS = {
    "carried": ("tensor()", "def f(x):\n  y = x * k\n  v = {made}\n  br()\n  y = y + 1\n  return y, {used}"),
    "raised": (
        "tensor()",
        "def f(x):\n  y = x * k\n  v = {made}\n  try: y = y + 1; raise KeyError([v])\n"
        "  except KeyError as e: v = e.args[0].pop(); br()\n  return y * 2, {used}",
    ),
    "given": (
        "(tensor(), make_value(tensor(), tensor() * k))",
        "make_value = lambda x, y: {made}\ndef f(x, v):\n  y = x * k\n  return y, {used}",
    ),
}

for _way, (_arguments, _source) in WAYS.items():
    for _number, _value in enumerate(VALUES):
        _made, _, _used = _value.partition("; ")
        register(
            _way,
            f"{_number} | evolves | args: {_arguments}",
            WORLD + _source.format(made=_made, used=_used),
            CHANGES,
        )
