"""Code that runs when the last reference to an object goes: as soon as the function lets go of it."""

from staleness import case, module, tensor

HEAD = """
import collections, contextvars, weakref
n = [0]
class D:
    def __del__(self): n[0] += 1
class W: pass                                  # told of by weak references
watchers = []
def watched():
    w = W(); watchers.append(weakref.ref(w, lambda r: n.__setitem__(0, n[0] + 1))); return w
class Box: pass
class Slots: __slots__ = ("v",)
box, slots = Box(), Slots()
d, l, od = {}, [None], collections.OrderedDict()
G = None
V = contextvars.ContextVar("V", default=None)
def cells():
    held = None
    def put(v):
        nonlocal held
        held = v
    return put
put = cells()
"""


def drops(name, statement, kind="D()", prepare=""):
    """Each call lets go of one more object of `kind` before it reads n."""

    @case(name=name, evolves=True)
    def made():
        m = module(
            f"{HEAD}\nspare = [{kind} for _ in range(12)]\n{prepare}\ndef f(x):\n  global G\n  {statement}\n"
            "  return x * (n[0] + 1)"
        )
        yield m.f, tensor()


for kind in ("D()", "[D()]", "{'k': D()}", "(D(), 1)", "watched()"):
    drops(f"an attribute of {kind}", "box.v = spare.pop()", kind, "box.v = spare.pop()")
    drops(f"a global of {kind}", "G = spare.pop()", kind, "G = spare.pop()")
    drops(f"an entry of {kind}", "d['k'] = spare.pop()", kind, "d['k'] = spare.pop()")
    drops(f"an item of {kind}", "l[0] = spare.pop()", kind, "l[0] = spare.pop()")
    drops(f"a result of {kind}", "spare.pop()", kind)

drops("a slot", "slots.v = spare.pop()", prepare="slots.v = spare.pop()")
drops("a cell", "put(spare.pop())", prepare="put(spare.pop())")
drops("an attribute of a class", "Box.v = spare.pop()", prepare="Box.v = spare.pop()")
drops("an entry of an ordered dict", "od['k'] = spare.pop()", prepare="od['k'] = spare.pop()")
drops("a context variable", "V.set(spare.pop())", prepare="V.set(spare.pop())")
drops("an item deleted", "del spare[0]")
drops("a slice deleted", "del spare[:2]")
drops("a slice replaced", "spare[:1] = []")
drops("an attribute deleted", "box.v = spare.pop(); del box.v")
drops("an entry popped", "d.pop(len(d) - 1)", prepare="d.update(enumerate(spare)); spare.clear()")
drops("an entry deleted", "del d[len(d) - 1]", prepare="d.update(enumerate(spare)); spare.clear()")
drops("the last entry", "d.popitem()", prepare="d.update(enumerate(spare)); spare.clear()")
drops("a dict cleared", "inner.pop().clear()", prepare="inner = [{1: s} for s in spare]; spare.clear()")
drops("a list cleared", "inner.pop().clear()", prepare="inner = [[s] for s in spare]; spare.clear()")
drops("a list emptied", "inner.pop()[:] = []", prepare="inner = [[s] for s in spare]; spare.clear()")
drops(
    "a list multiplied by none",
    "operator.imul(inner.pop(), 0)",
    prepare="import operator\ninner = [[s] for s in spare]; spare.clear()",
)
drops("a local variable", "v = spare.pop(); v = None")
drops("a local variable deleted", "v = spare.pop(); del v")
drops("a loop's variable", "\n  for v in (spare.pop(), None): pass")
drops("an argument of a callee", "(lambda v: None)(spare.pop())")
drops("what a made list holds", "v = [spare.pop()]; v.clear()")
drops("what a made dict holds", "v = {1: spare.pop()}; v[1] = 2")
drops("what a made tuple holds", "v = (spare.pop(), 1); v = None")
drops(
    "an object that holds one",
    "box.v = None; box.v = wrap(spare.pop())",
    prepare="def wrap(v):\n  b = Box(); b.v = v; return b\nbox.v = None",
)
drops(
    "an object in an object",
    "box.v = boxes.pop()",
    prepare="def wrap(v):\n  b = Box(); b.v = v; return b\n"
    "boxes = [wrap(spare.pop()) for _ in range(9)]\nbox.v = boxes.pop()",
)
drops(
    "a generator in a try",
    "box.v = gens.pop()",
    prepare="def g():\n  try: yield 1\n  finally: n[0] += 1\ndef begun():\n  i = g(); next(i); return i\n"
    "gens = [begun() for _ in range(9)]\nbox.v = gens.pop()",
)
drops(
    "a setter",
    "box.p = spare.pop()",
    prepare="Box.p = property(lambda s: s._p, lambda s, v: setattr(s, '_p', v))\nbox.p = spare.pop()",
)
drops("setattr", "setattr(box, 'v', spare.pop())", prepare="box.v = spare.pop()")
drops("delattr", "box.v = spare.pop(); delattr(box, 'v')")
drops("the dict of an object", "box.__dict__['v'] = spare.pop()", prepare="box.v = spare.pop()")
drops("update", "d.update(k=spare.pop())", prepare="d['k'] = spare.pop()")
drops(
    "update in place",
    "d.__ior__({'k': spare.pop()}) if False else d.update({'k': spare.pop()})",
    prepare="d['k'] = spare.pop()",
)
drops("reversal and pop", "spare.reverse(); spare.pop()")


@case
def finalizer_added_later():
    m = module(
        "n = [0]\nclass D: pass\nclass Box: pass\nbox = Box()\n"
        "def f(x, v):\n  box.v = v\n  box.v = None\n  return x * (n[0] + 1)\n"
        "def f2(x):\n  box.w = None\n  return x * (n[0] + 1)"
    )
    m.box.w = m.D()
    yield m.f2, tensor()
    m.D.__del__ = lambda self: m.n.__setitem__(0, 5)
    m.box.w = m.D()


@case
def another_kind_is_dropped():
    m = module(
        "n = [0]\nclass D:\n  def __del__(self): n[0] += 1\nclass Box: pass\nbox = Box()\n"
        "def f(x):\n  box.w = None\n  return x * (n[0] + 1)"
    )
    m.box.w = 3
    yield m.f, tensor()
    m.box.w = m.D()


@case
def a_callback_comes_later():
    m = module(
        "import weakref\nn = [0]\nclass W: pass\nclass Box: pass\nbox = Box()\n"
        "def f(x):\n  box.w = None\n  return x * (n[0] + 1)"
    )
    m.box.w = m.W()
    yield m.f, tensor()
    m.box.w = m.W()
    m.r = m.weakref.ref(m.box.w, lambda r: m.n.__setitem__(0, 7))


@case
def the_last_reference_elsewhere_goes():
    m = module(
        "n = [0]\nclass D:\n  def __del__(self): n[0] += 1\nclass Box: pass\nbox = Box()\n"
        "held = D()\nbox.w = held\n"
        "def f(x):\n  box.w = None\n  return x * (n[0] + 1)"
    )
    yield m.f, tensor()
    m.box.w = m.held
    m.held = None
