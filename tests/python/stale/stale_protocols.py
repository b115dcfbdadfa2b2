"""What C code, isinstance, `except` and `match` ask of classes: special methods and bases that come later."""

import collections.abc

import torch
from staleness import case, module, tensor

CLASSES = """
import collections.abc, functools, operator
class A: pass
class B: pass
class C(A): pass
class I: pass
a, b, c = I(), I(), C()
s, d = {a}, {a: 2}
class E0(Exception): pass
class E1(Exception): pass
class E2(E0): pass
"""


def later(name, body, change, setup=""):
    """`change(module)` happens before the third call."""

    @case(name=name)
    def cases():
        m = module(CLASSES + setup + "\ndef f(x):\n    " + body.replace("\n", "\n    "))
        yield m.f, tensor()
        change(m)

    return cases


# ------------------------------------------------------------------------------------------------------- bases


def rebased(m):
    m.C.__bases__ = (m.B,)
    m.E2.__bases__ = (m.E1,)


later("isinstance_rebased", "return x * (2 if isinstance(c, B) else 3)", rebased)
later("isinstance_no_longer", "return x * (2 if isinstance(c, A) else 3)", rebased)
later("isinstance_of_tuple", "return x * (2 if isinstance(c, (int, B)) else 3)", rebased)
later("isinstance_of_union", "return x * (2 if isinstance(c, int | B) else 3)", rebased)
later("isinstance_of_made", "return x * (2 if isinstance(C(), B) else 3)", rebased)
later("issubclass_rebased", "return x * (2 if issubclass(C, B) else 3)", rebased)
later("issubclass_of_type", "return x * (2 if issubclass(type(c), B) else 3)", rebased)
later("except_rebased", "try: raise E2\nexcept E1: return x * 2\nexcept Exception: return x * 3", rebased)
later(
    "except_of_instance",
    "try: raise E2('x')\nexcept (KeyError, E1): return x * 2\nexcept E0: return x * 3",
    rebased,
)
later("match_class_rebased", "match c:\n    case B(): return x * 2\n    case _: return x * 3", rebased)
later("match_class_or", "match c:\n    case B() | int(): return x * 2\n    case _: return x * 3", rebased)
later("mro_read", "return x * len([k for k in C.__mro__ if k is B] + [1])", rebased)
later("attribute_of_new_base", "return x * getattr(c, 'scale', 3)", rebased, "B.scale = 5")
later("method_of_new_base", "return c.m(x)", rebased, "A.m = lambda self, x: x\nB.m = lambda self, x: x * 2")
later("special_of_new_base", "return x * (2 if c else 3)", rebased, "B.__bool__ = lambda self: False")
later(
    "operator_of_new_base", "return x * (c + 1)", rebased, "A.__add__ = lambda s, o: 2\nB.__add__ = lambda s, o: 4"
)
later("base_of_base_rebased", "return x * (2 if isinstance(k, B) else 3)", rebased, "class K(C): pass\nk = K()")
later("filter_by_isinstance", "return x * len([k for k in [c, a] if isinstance(k, (B, I))])", rebased)


@case
def class_given_by_getattribute():
    m = module(CLASSES + "def f(x): return x * (2 if isinstance(c, B) else 3)")
    yield m.f, tensor()
    m.C.__getattribute__ = lambda self, name: m.B if name == "__class__" else object.__getattribute__(self, name)


@case
def class_of_argument_rebased():
    m = module(CLASSES + "def f(x, o): return x * (2 if isinstance(o, B) else 3)")
    yield m.f, tensor(), m.c
    m.C.__bases__ = (m.B,)


# -------------------------------------------------------------------------------------------- register, and match

SEQUENCE = "match a:\n    case [*_]: return x * 2\n    case _: return x * 3"
MAPPING = "match a:\n    case {**rest}: return x * 2\n    case _: return x * 3"
GIVE = "I.__len__ = lambda self: 0\nI.__getitem__ = lambda self, k: k\nI.keys = lambda self: []"
sequence, mapping = collections.abc.Sequence, collections.abc.Mapping
later("match_sequence_registered", SEQUENCE, lambda m: sequence.register(m.I), GIVE)
later("match_sequence_raises", SEQUENCE, lambda m: sequence.register(m.I))
later("match_mapping_registered", MAPPING, lambda m: mapping.register(m.I), GIVE)
later(
    "match_base_registered",
    SEQUENCE,
    lambda m: sequence.register(m.J),
    GIVE + "\nclass J: pass\nI = type('I', (J, I), {})\na = I()",
)
later("match_mutable_sequence", SEQUENCE, lambda m: collections.abc.MutableSequence.register(m.I), GIVE)
later("match_of_made", SEQUENCE.replace("match a", "match I()"), lambda m: sequence.register(m.I), GIVE)
later(
    "match_sequence_items",
    "match a:\n    case [p, q]: return x * p\n    case _: return x * 3",
    lambda m: sequence.register(m.I),
    "I.__len__ = lambda self: 2\nI.__getitem__ = lambda self, k: 5",
)
for name in ("Sequence", "Mapping", "Iterable", "Callable", "Sized", "Hashable"):
    abstract = getattr(collections.abc, name)
    test = f"return x * (2 if isinstance(k, collections.abc.{name}) else 3)"
    later(
        f"registered_{name}",
        test,
        lambda m, abstract=abstract: abstract.register(m.K),
        "class K: __hash__ = None\nk = K()",
    )
later(
    "issubclass_registered",
    "return x * (2 if issubclass(I, collections.abc.Set) else 3)",
    lambda m: collections.abc.Set.register(m.I),
)
later(
    "registered_with_own",
    "return x * (2 if isinstance(a, Own) else 3)",
    lambda m: m.Own.register(m.I),
    "import abc\nclass Own(abc.ABC): pass",
)


# ---------------------------------------------------------------------------------- special methods added later


def special(name, body, setup="", **methods):
    def change(m):
        for method, value in methods.items():
            setattr(m.I, f"__{method}__", value)

    later(name, body, change, setup)


no, yes, one = (lambda self, *a: False), (lambda self, *a: True), (lambda self, *a: 1)
special("all_of_made", "return x * (2 if all([I()]) else 3)", bool=no)
special("any_of_made", "return x * (2 if any([I()]) else 3)", bool=no)
special("all_by_len", "return x * (2 if all([I(), I()]) else 3)", len=lambda self: 0)
special("filter_of_made", "return x * (1 + len(list(filter(None, [I(), 1]))))", bool=no)
special("bool_of_made", "return x * (2 if bool(I()) else 3)", bool=no)
special("not_made", "return x * (2 if not I() else 3)", bool=no)
special("and_made", "return x * (2 if I() and 1 else 3)", bool=no)
special("if_global", "return x * (2 if a else 3)", bool=no)
special("all_of_globals", "return x * (2 if all([a, b]) else 3)", bool=no)
special("lists_equal", "return x * (2 if [I()] == [I()] else 3)", eq=yes)
special("tuples_equal", "return x * (2 if (I(), 1) == (I(), 1) else 3)", eq=yes)
special("dicts_equal", "return x * (2 if {1: I()} == {1: I()} else 3)", eq=yes)
special("objects_equal", "return x * (2 if I() == I() else 3)", eq=yes)
special("globals_equal", "return x * (2 if a == b else 3)", eq=yes)
special("globals_differ", "return x * (2 if a != b else 3)", ne=no)
special("made_in_list", "return x * (2 if I() in [I()] else 3)", eq=yes)
special("count_in_list", "return x * (1 + [I(), I()].count(I()))", eq=yes)
special("member_of_set", "return x * (2 if a in s else 3)", hash=one)
special(
    "sorted_by_less",
    "return x * sorted([a, b])[0].v",
    setup="a.v, b.v = 2, 3\nI.__lt__ = lambda s, o: False",
    lt=lambda s, o: s.v > o.v,
)
special("callable", "return x * (2 if callable(a) else 3)", call=one)
special("hasattr_iter", "return x * (2 if hasattr(a, '__iter__') else 3)", iter=lambda self: iter([]))
special("text", "return x * len(str(a))", setup="I.__repr__ = lambda self: 'ab'", str=lambda self: "abc")
special(
    "text_in_f_string",
    "return x * len(f'{a}')",
    setup="I.__str__ = lambda self: 'ab'",
    format=lambda self, spec: "abc",
)
special("attribute_fallback", "return x * getattr(a, 'gone', 2)", getattr=lambda self, name: 7)
special("attribute_of_made", "return x * getattr(I(), 'gone', 2)", getattr=lambda self, name: 7)
special("own_lookup", "return x * a.v", setup="a.v = 2", getattribute=lambda self, name: 7)
special("index", "return x * [2, 3, 4][a]", setup="I.__index__ = lambda self: 0", index=lambda self: 2)
special(
    "addition", "return x * (a + 1)", setup="I.__radd__ = one = lambda s, o: 2\nI.__add__ = one", add=lambda s, o: 9
)
special("reflected", "return x * (1 + a)", setup="I.__radd__ = lambda s, o: 2", radd=lambda s, o: 9)
special(
    "sum_of_made",
    "return x * sum([a, a])",
    setup="I.__radd__ = lambda s, o: 2\nI.__add__ = lambda s, o: 2",
    radd=lambda s, o: 9,
)
special(
    "hash_of_object",
    "return x * (2 if hash(a) == 1 else 3)",
    setup="I.__hash__ = lambda self: 1",
    hash=lambda self: 2,
)
special(
    "iterated",
    "return x * sum(list(a))",
    setup="I.__iter__ = lambda self: iter([1, 2])",
    iter=lambda self: iter([5]),
)
special("contained", "return x * (2 if 3 in a else 5)", setup="I.__contains__ = lambda self, k: True", contains=no)
special("length", "return x * len(a)", setup="I.__len__ = lambda self: 2", len=lambda self: 3)
special("length_decides_truth", "return x * (2 if a else 3)", setup="I.__len__ = lambda self: 2", bool=no)
special(
    "with_statement",
    "with a as k: return x * k",
    setup="I.__enter__ = lambda s: 2\nI.__exit__ = lambda *a: None",
    enter=lambda s: 3,
)
special(
    "zip_of_object",
    "return x * sum(p for p, q in zip(a, a))",
    setup="I.__iter__ = lambda s: iter([2])",
    iter=lambda s: iter([3]),
)


# ------------------------------------------------------------- what text and containers leave to the other operand

REFLECTED = """
class R:
    def __radd__(self, other): return [*other, 5]
    def __ror__(self, other): return {**other, "r": 1}
    def __eq__(self, other): return True
    __hash__ = None
r = R()
OLD, DICT = [1], {"a": 1}
"""


def six(self, other):
    return [*other, 6]


later("reflected_replaced", "return x, [1] + r", lambda m: setattr(m.R, "__radd__", six), REFLECTED)
later("reflected_by_made", "return x, [1] + R()", lambda m: setattr(m.R, "__radd__", six), REFLECTED)
later("reflected_of_older", "return x, OLD + r", lambda m: m.OLD.append(2), REFLECTED)
later("reflected_of_older_dict", "return x, DICT | r", lambda m: m.DICT.update(b=2), REFLECTED)
later("reflected_gone", "return x, DICT | r", lambda m: setattr(m.R, "__ror__", lambda s, o: 4), REFLECTED)
later(
    "reflected_eq", "return x, [1] == r, 'a' == r", lambda m: setattr(m.R, "__eq__", lambda s, o: False), REFLECTED
)
later(
    "reflected_added",
    "try: return x, [1] + a\nexcept TypeError: return x + 3",
    lambda m: setattr(m.I, "__radd__", six),
)
later(
    "updated_by_pairs",
    "d = {}\nd |= ((k, x * v) for k, v in P)\nreturn d",
    lambda m: m.P.pop(),
    'P = [("a", 1), ("b", 2)]',
)
later(
    "extended_by_generator",
    "q = collections.deque()\nq += (x * v for v in P)\nreturn list(q)",
    lambda m: m.P.pop(),
    "import collections\nP = [1, 2]",
)

HANDLED = """
import torch
class H:
    def __init__(self, tensor): self.tensor = tensor
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*[one.tensor if isinstance(one, H) else one for one in args], **(kwargs or {}))
h = H(torch.ones(()))
HS = [h]
"""
NOTHING = classmethod(lambda cls, func, types, args=(), kwargs=None: torch.zeros(()))

later(
    "handler_replaced",
    "return torch.sin(h), torch.add(x, h), x * h, x.add(h)",
    lambda m: setattr(m.H, "__torch_function__", NOTHING),
    HANDLED,
)
later(
    "handler_of_object",
    "return torch.sin(h)",
    lambda m: setattr(m.h, "__torch_function__", lambda *a, **k: torch.zeros(())),
    HANDLED,
)
later(
    "handled_holds_other", "return torch.sin(h) + x", lambda m: setattr(m.h, "tensor", torch.ones(()) * 3), HANDLED
)
later("handled_other_object", "return torch.sin(h) + x", lambda m: setattr(m, "h", m.H(torch.zeros(()))), HANDLED)
later(
    "handled_no_longer",
    "try: return torch.sin(h)\nexcept Exception: return x",
    lambda m: delattr(m.H, "__torch_function__"),
    HANDLED,
)

SLOTTED = HANDLED.replace("class H:\n", "class H:\n    __slots__ = ('tensor',)\n")


def hold_three(m):
    m.h.tensor = torch.ones(()) * 3


later("handled_with_slots", "return torch.sin(h) + x", hold_three, SLOTTED)
