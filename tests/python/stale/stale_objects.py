"""Objects that die, addresses used again, weak references, finalizers, aliasing of what is no tensor."""

import gc

from staleness import call, case, module, tensor


@case
def address_used_again():
    """The new object often lies where the old one lay."""
    m = module("class K:\n  def __init__(self, v): self.v = v\nk = K(2)\ndef f(x): return x * k.v")
    yield m.f, tensor()
    m.k = None
    gc.collect()
    m.k = m.K(3)


@case
def list_address_used_again():
    m = module("c = [1, 2]\ndef f(x): return x * sum(c)")
    yield m.f, tensor()
    del m.c
    m.c = [3, 4]


@case
def float_address_used_again():
    m = module("c = [float('2.5')]\ndef f(x): return x * c[0]")
    yield m.f, tensor()
    m.c[0] = None
    m.c[0] = float("3.5")


@case
def function_address_used_again():
    m = module("def make(k): return lambda x: x * k\ng = make(2)\ndef f(x): return g(x)")
    yield m.f, tensor()
    m.g = None
    gc.collect()
    m.g = m.make(3)


@case
def class_made_again():
    m = module("def make(k): return type('K', (), {'v': k})\nK = make(2)\ndef f(x): return x * K.v")
    yield m.f, tensor()
    m.K = None
    gc.collect()
    m.K = m.make(3)


@case
def tensor_address_used_again():
    m = module("c = torch.ones(4)\ndef f(x): return x * c")
    yield m.f, tensor()
    m.c = None
    gc.collect()
    m.c = m.torch.full((4,), 3.0)


@case
def weak_reference_dies():
    m = module(
        "import weakref\nclass K: v = 2\nk = K()\nr = weakref.ref(k)\n"
        "def f(x): return x + 1 if r() is None else x * r().v"
    )
    yield m.f, tensor()
    del m.k
    gc.collect()


@case
def weak_value_dictionary():
    m = module(
        "import weakref\nclass K: pass\nk = K()\nd = weakref.WeakValueDictionary(a=k)\n"
        "def f(x): return x * (2 + len(d))"
    )
    yield m.f, tensor()
    del m.k
    gc.collect()


@case
def weak_set():
    m = module(
        "import weakref\nclass K: pass\nk = K()\ns = weakref.WeakSet([k])\ndef f(x): return x * (2 + len(s))"
    )
    yield m.f, tensor()
    del m.k
    gc.collect()


@case
def finalizer_prints():
    m = module(
        "class K:\n  def __del__(self): print(word)\nword = 'a'\ndef f(x):\n  k = K(); del k\n  return x + 1"
    )
    yield m.f, tensor()
    m.word = "b"


@case
def finalizer_changes_a_global():
    m = module(
        "n = 0\nstep = 0\nclass K:\n  def __del__(self):\n    global n\n    n += step\ndef f(x):\n"
        "  K()\n  return x * n"
    )
    yield call(m.f, tensor()).watch(m)
    m.step = 5


@case
def finalizer_added_to_class():
    m = module("class K: pass\ndef f(x):\n  k = K(); del k\n  return x + 1")
    yield m.f, tensor()
    m.K.__del__ = lambda self: print("died")


@case
def identity_of_two_globals():
    m = module("a = []\nb = []\ndef f(x): return x + 1 if a is b else x - 1")
    yield m.f, tensor()
    m.b = m.a


@case
def alias_written_through():
    m = module("a = [1]\nb = [1]\ndef f(x):\n  a[0] = 5\n  r = x * b[0]\n  a[0] = 1\n  return r")
    yield m.f, tensor()
    m.b = m.a


@case
def alias_of_objects():
    m = module(
        "class K: pass\na = K(); b = K(); a.v = b.v = 1\ndef f(x):\n  a.v = 7\n  r = x * b.v\n  a.v = 1\n  return r"
    )
    yield m.f, tensor()
    m.b = m.a


@case
def alias_of_arguments():
    m = module("def f(x, a, b):\n  a.append(1)\n  return x * len(b), a.pop()")
    yield m.f, tensor(), [], []
    both = []
    yield tensor(), both, both


@case
def result_is_an_argument():
    m = module("swap = False\ndef f(a, b): return b if swap else a")
    yield m.f, tensor(), tensor()
    m.swap = True


@case
def result_is_a_global_object():
    m = module("k = [1]\ndef f(x): return k, k, x")
    yield call(m.f, tensor()).watch(m)
    m.k = [1, 2]


@case
def result_contains_a_closed_over_list():
    m = module("def make(l):\n  def f(x): return l, x + len(l)\n  return f")
    kept = []
    yield call(m.make(kept), tensor()).watch(kept)
    kept.append(4)


@case
def id_of_object():
    m = module("a = []\nb = []\nwant = id(a)\ndef f(x): return x + 1 if id(a) == want else x - 1")
    yield m.f, tensor()
    m.a = m.b


@case
def reference_count():
    m = module("import sys\na = []\nkept = []\ndef f(x): return x * sys.getrefcount(a)")
    yield m.f, tensor()
    m.kept.append(m.a)


@case
def pickled_state():
    m = module("import copyreg, copy\nclass K: v = 1\nk = K()\nk.w = 2\ndef f(x): return x * copy.copy(k).w")
    yield m.f, tensor()
    m.k.w = 3


@case
def deep_copied():
    m = module("import copy\nc = {'a': [1, 2]}\ndef f(x): return x, copy.deepcopy(c)")
    yield m.f, tensor()
    m.c["a"].append(3)


@case
def mutated_during_iteration():
    m = module(
        "c = {'a': 1}\ngrow = False\ndef f(x):\n  for k in list(c):\n    if grow: c.pop(k)\n  return x * len(c)"
    )
    yield call(m.f, tensor()).watch(m)
    m.grow = True


@case
def sentinel_default():
    m = module("missing = object()\ndef g(v=missing): return v is missing\ndef f(x): return x + g()")
    yield m.f, tensor()
    m.missing = object()


@case
def sys_modules_entry():
    import sys

    m = module("import sys\ndef f(x): return x + ('stale_entry' in sys.modules)")
    try:
        yield m.f, tensor()
        sys.modules["stale_entry"] = m
        yield tensor()
    finally:
        sys.modules.pop("stale_entry", None)


@case
def module_getattr():
    m = module("", k=2)
    other = module("def f(x): return x * m.k", m=m)
    yield other.f, tensor()
    del m.k
    m.__getattr__ = lambda name: 9
