"""Functions: their code, defaults, closures, decorators, what they call, generators, imports, exceptions."""

import functools
import operator

from staleness import call, case, module, tensor


@case
def code_replaced():
    m = module("def f(x): return g(x)\ndef g(x): return x + 1\ndef h(x): return x - 1")
    yield m.f, tensor()
    m.g.__code__ = m.h.__code__


@case
def code_of_the_function_itself_replaced():
    m = module("def f(x): return x + 1\ndef h(x): return x - 1")
    yield m.f, tensor()
    m.f.__code__ = m.h.__code__


@case
def callee_rebound():
    m = module("def f(x): return g(x)\ndef g(x): return x + 1")
    yield m.f, tensor()
    m.g = lambda x: x * 10


@case
def callee_deleted():
    m = module("def f(x): return g(x)\ndef g(x): return x + 1")
    yield m.f, tensor()
    del m.g


@case
def builtin_shadowed():
    m = module("def f(x): return x * len(x)")
    yield m.f, tensor()
    m.len = lambda x: 100


@case
def builtin_unshadowed():
    m = module("def f(x): return x * max(1, 2)\nmax = min")
    yield m.f, tensor()
    del m.max


@case
def builtins_module_changed():
    import types

    m = module("def f(x): return x * limit")
    made = types.ModuleType("builtins")
    made.__dict__.update(m.__builtins__ if isinstance(m.__builtins__, dict) else vars(m.__builtins__))
    made.limit = 2
    m = module("def f(x): return x * limit", __builtins__=made)
    yield m.f, tensor()
    made.limit = 3


@case
def default_of_callee():
    m = module("def g(x, k=1): return x * k\ndef f(x): return g(x)")
    yield m.f, tensor()
    m.g.__defaults__ = (5,)


@case
def defaults_removed():
    m = module("def g(x, k=1): return x * k\ndef f(x): return g(x)")
    yield m.f, tensor()
    m.g.__defaults__ = None


@case
def keyword_defaults_replaced():
    m = module("def g(x, *, k=1): return x * k\ndef f(x): return g(x)")
    yield m.f, tensor()
    m.g.__kwdefaults__ = {"k": 4}


@case
def mutable_default():
    m = module("def f(x, ks=[1]): return x * ks[0], len(ks)")
    yield m.f, tensor()
    m.f.__defaults__[0].append(2)


@case
def closure_of_callee():
    m = module(
        """
def make(k):
    def g(x): return x * k
    def change(v):
        nonlocal k
        k = v
    return g, change
g, change = make(2)
def f(x): return g(x)
"""
    )
    yield m.f, tensor()
    m.change(7)


@case
def closure_cell_emptied():
    m = module(
        """
def make(k):
    def f(x): return x * k
    return f
f = make(2)
"""
    )
    yield m.f, tensor()
    del m.f.__closure__[0].cell_contents


@case
def closure_cell_set_directly():
    m = module("def make(k):\n  def f(x): return x * k\n  return f\nf = make(2)")
    yield m.f, tensor()
    m.f.__closure__[0].cell_contents = 9


@case
def closure_list_grows():
    m = module("def make(ks):\n  def f(x):\n    for k in ks: x = x + k\n    return x\n  return f")
    ks = [1, 2]
    yield m.make(ks), tensor()
    ks.append(30)


@case
def keyword_instead_of_position():
    m = module("def f(a, b=10, *rest, **kw): return a * b, rest, sorted(kw)")
    yield m.f, tensor(), 2
    yield call(tensor(), b=3)
    yield call(tensor(), 2, 5, z=1)


@case
def keyword_order():
    m = module("def f(x, **kw): return [x * v for v in kw.values()], list(kw)")
    yield call(m.f, tensor(), a=1, b=2)
    yield call(tensor(), b=2, a=1)


@case
def keyword_name():
    m = module("def f(x, **kw): return x, kw")
    yield call(m.f, tensor(), a=1)
    yield call(tensor(), b=1)


@case
def number_of_arguments():
    m = module("def f(*xs): return sum(xs)")
    yield m.f, tensor(), tensor()
    yield tensor(), tensor(), tensor()


@case
def wrong_number_of_arguments():
    m = module("def f(a, b=1): return a * b")
    yield m.f, tensor()
    yield call(tensor(), 1, 2)


@case
def partial_replaced():
    m = module("def g(k, x): return x * k\ndef f(x): return p(x)", p=None)
    m.p = functools.partial(m.g, 2)
    yield m.f, tensor()
    m.p = functools.partial(m.g, 3)


@case
def partial_keywords_mutated():
    m = module("def g(x, k=1): return x * k\ndef f(x): return p(x)", p=None)
    m.p = functools.partial(m.g, k=2)
    yield m.f, tensor()
    m.p.keywords["k"] = 8


@case
def parts_of_a_partial_that_is_made():
    text = "(x * len(p.args) + p.args[0], p.keywords, sum(p.args), len(p.keywords), p)"
    made = "import functools\nk = 2\ndef f(x):\n    p = functools.partial(print, k, 3, end=k)"
    m = module(f"{made}\n    return {text}")
    yield m.f, tensor()
    m.k = 5


@case
def keywords_of_a_partial_that_is_made_written_to():
    m = module(
        "import functools\nk = 2\ndef f(x):\n    p = functools.partial(dict, a=k)\n"
        "    p.keywords['b'] = k + 1\n    return x + p()['b'], p.keywords, p()"
    )
    yield m.f, tensor()
    m.k = 5


@case
def partial_setstate():
    m = module("def g(x, k=1): return x * k\ndef f(x): return p(x)", p=None)
    m.p = functools.partial(m.g, k=2)
    yield m.f, tensor()
    m.p.__setstate__((m.g, (), {"k": 11}, {}))


@case
def decorator_state():
    m = module(
        """
def scaled(g):
    def wrapper(x): return g(x) * wrapper.k
    wrapper.k = 1
    return wrapper
@scaled
def g(x): return x + 1
def f(x): return g(x)
"""
    )
    yield m.f, tensor()
    m.g.k = 6


@case
def wraps_unwrapped():
    m = module("import functools\ndef g(x): return x + 1\n@functools.wraps(g)\ndef f(x): return f.__wrapped__(x)")
    yield m.f, tensor()
    m.f.__wrapped__ = lambda x: x - 5


@case
def function_attribute():
    m = module("def f(x): return x * f.k\nf.k = 2")
    yield m.f, tensor()
    m.f.k = 3


@case
def function_name():
    m = module("def g(): pass\ndef f(x): return x, g.__name__, g.__qualname__, g.__doc__")
    yield m.f, tensor()
    m.g.__name__ = "other"
    yield tensor()
    m.g.__doc__ = "doc"
    yield tensor()


@case
def annotations():
    m = module("def g(x: int): pass\ndef f(x): return x * len(g.__annotations__)")
    yield m.f, tensor()
    m.g.__annotations__["y"] = int


@case
def lru_cache_cleared():
    m = module("import functools\nK = 1\n@functools.lru_cache\ndef g(): return K\ndef f(x): return x * g()")
    yield m.f, tensor()
    m.K = 5
    m.g.cache_clear()


@case
def lru_cache_keeps():
    """The cache still answers 1: changing K alone changes nothing until another key is asked for."""
    m = module("import functools\nK = 1\n@functools.lru_cache\ndef g(i): return K\ndef f(x, i): return x * g(i)")
    yield m.f, tensor(), 0
    m.K = 5
    yield tensor(), 0
    yield tensor(), 1


@case
def singledispatch_registered():
    m = module("import functools\n@functools.singledispatch\ndef g(k, x): return x\ndef f(x): return g(2, x)")
    yield m.f, tensor()
    m.g.register(int, lambda k, x: x * k)


@case
def recursion_depth():
    m = module("def f(x, n): return x if n == 0 else f(x + 1, n - 1)")
    yield m.f, tensor(), 2
    yield tensor(), 5


@case
def mutual_recursion_rebound():
    m = module("def f(x, n): return x if n == 0 else g(x, n - 1)\ndef g(x, n): return f(x * 2, n)")
    yield m.f, tensor(), 3
    m.g = lambda x, n: m.f(x * 3, n)


@case
def generator_source():
    m = module("ks = [1, 2]\ndef g():\n  for k in ks: yield k\ndef f(x): return [x * k for k in g()]")
    yield m.f, tensor()
    m.ks = [3]


@case(evolves=True)
def generator_advances():
    m = module("def g():\n  k = 0\n  while True:\n    k += 1\n    yield k\nit = g()\ndef f(x): return x * next(it)")
    yield m.f, tensor()


@case
def generator_exhausted():
    m = module("def f(x, it): return x * sum(it)")
    yield m.f, tensor(), (1, 2)
    it = (k for k in (1, 2))
    yield tensor(), it
    yield tensor(), it


@case
def comprehension_condition():
    m = module("LIMIT = 2\ndef f(x): return [x * i for i in range(5) if i > LIMIT]")
    yield m.f, tensor()
    m.LIMIT = 3


@case
def import_inside():
    import sys
    import types

    def made(k):
        other = types.ModuleType("stale_imported")
        other.k = k
        return other

    sys.modules["stale_imported"] = made(2)
    m = module("def f(x):\n  import stale_imported\n  return x * stale_imported.k")
    try:
        yield m.f, tensor()
        sys.modules["stale_imported"] = made(3)
        yield tensor()
    finally:
        del sys.modules["stale_imported"]


@case
def import_from_inside():
    import sys
    import types

    other = sys.modules["stale_imported2"] = types.ModuleType("stale_imported2")
    other.k = 2
    m = module("def f(x):\n  from stale_imported2 import k\n  return x * k")
    try:
        yield m.f, tensor()
        other.k = 5
        yield tensor()
    finally:
        del sys.modules["stale_imported2"]


@case
def exception_instead_of_value():
    m = module("ok = True\ndef f(x):\n  if not ok: raise ValueError('no')\n  return x + 1")
    yield m.f, tensor()
    m.ok = False


@case
def exception_message():
    m = module("what = 'a'\ndef f(x):\n  raise KeyError(what)")
    yield m.f, tensor()
    m.what = "b"


@case
def exception_type():
    m = module("kind = ValueError\ndef f(x):\n  raise kind('bad')")
    yield m.f, tensor()
    m.kind = TypeError


@case
def exception_cause():
    m = module("cause = ValueError('a')\ndef f(x):\n  raise RuntimeError('b') from cause")
    yield m.f, tensor()
    m.cause = KeyError("c")


@case
def exception_caught():
    m = module(
        """
kinds = (ValueError,)
def f(x):
    try:
        raise ValueError('v')
    except kinds:
        return x + 1
    except Exception as e:
        return x - 1
"""
    )
    yield m.f, tensor()
    m.kinds = (KeyError,)


@case
def finally_reads():
    m = module("k = 1\ndef f(x):\n  try:\n    return x\n  finally:\n    x.fill_(k)")
    yield call(m.f, tensor()).watch(m)
    m.k = 5


@case
def assert_condition():
    m = module("low = 0\ndef f(x):\n  assert x.numel() > low, f'too small: {low}'\n  return x")
    yield m.f, tensor()
    m.low = 10


@case
def operator_function():
    m = module("op = None\ndef f(x): return op(x, x)")
    m.op = operator.add
    yield m.f, tensor()
    m.op = operator.mul


@case
def sort_key():
    m = module("sign = 1\ndef f(x): return [x * k for k in sorted([3, 1, 2], key=lambda k: sign * k)]")
    yield m.f, tensor()
    m.sign = -1


@case
def map_function():
    m = module("def g(k): return k + 1\ndef f(x): return [x * k for k in map(g, [1, 2])]")
    yield m.f, tensor()
    m.g = lambda k: k * 7


@case
def reduce_function():
    m = module("import functools\ndef g(a, b): return a + b\ndef f(x): return functools.reduce(g, [x, x, x])")
    yield m.f, tensor()
    m.g = lambda a, b: a * b


@case
def fstring():
    m = module(
        "class K:\n  def __format__(self, spec): return spec + str(n)\nn = 1\nk = K()\ndef f(x): return x, f'{k:a}'"
    )
    yield m.f, tensor()
    m.n = 2


@case
def globals_function():
    m = module("def f(x): return x * globals()['k']\nk = 2")
    yield m.f, tensor()
    m.k = 3


@case
def eval_expression():
    m = module("text = 'x + 1'\ndef f(x): return eval(text)")
    yield m.f, tensor()
    m.text = "x * 5"


@case
def getattr_name():
    m = module("name = 'sin'\ndef f(x): return getattr(torch, name)(x)")
    yield m.f, tensor()
    m.name = "cos"


@case
def torch_function_replaced():
    import torch

    m = module("def f(x): return F.relu(x - 2)", F=module("", relu=torch.nn.functional.relu))
    yield m.f, tensor()
    m.F.relu = torch.nn.functional.gelu


@case
def match_subject():
    m = module(
        """
shape = ('square', 2)
def f(x):
    match shape:
        case ('square', k): return x * k
        case {'r': r}: return x + r
        case _: return x
"""
    )
    yield m.f, tensor()
    m.shape = {"r": 5}


@case
def while_condition():
    m = module("n = 2\ndef f(x):\n  i = 0\n  while i < n:\n    x = x + i; i += 1\n  return x")
    yield m.f, tensor()
    m.n = 4


@case
def starred_call():
    m = module(
        "args = (1, 2)\nkw = {'c': 3}\ndef g(x, a, b, c=0): return x * a + b - c\n"
        "def f(x): return g(x, *args, **kw)"
    )
    yield m.f, tensor()
    m.kw["c"] = 9


@case
def conditional_expression_on_identity():
    m = module("a = b = object()\ndef f(x): return x + 1 if a is b else x - 1")
    yield m.f, tensor()
    m.b = object()
