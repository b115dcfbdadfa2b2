"""Rows of test_language.py: weak references that the function makes, and what modules do not have."""

from language import expressions, row, statements

HEAD = """
import weakref
class Box: pass
class Slim: __slots__ = ("v", "__weakref__")
BOX = Box()
REF = weakref.ref(BOX)
"""

expressions(
    "weak references",
    HEAD,
    "weakref.ref(BOX)() is BOX",
    "weakref.ref(BOX) is REF",
    "weakref.ref(Box())() is None",
    "weakref.ref(Slim())() is None",
    "(lambda box: weakref.ref(box)() is box)(Box())",
    "type(weakref.ref(BOX)) is weakref.ref",
    "weakref.ref(BOX)().__class__ is Box",
    "isinstance(weakref.ref(BOX), weakref.ref)",
)
row(
    "weak reference that is kept",
    HEAD
    + """
def f(x):
    box = Box()
    box.ref = weakref.ref(box)
    box.older = weakref.ref(BOX)
    box.v = x * 2
    return box.ref().v + 1, box.ref() is box, box.older is REF
""",
)
row(
    "weak reference that dies",
    HEAD
    + """
def f(x):
    box = Box()
    ref = weakref.ref(box)
    before = ref() is None
    del box
    return x * 2, before, ref() is None
""",
)
row(
    "weak reference that is returned",
    HEAD
    + """
def f(x):
    box = Box()
    BOX.last = weakref.ref(box)
    BOX.box = box
    return x * 2, BOX.last() is BOX.box
""",
    replays=False,  # The box that a call replaces has a weak reference now, and is another one.
)
statements(
    "weak references that end the graph",
    HEAD,
    "",
    "r() is None",
    "r = weakref.ref(x)",
    "r = weakref.ref(Box)",
    breaks=1,
)
statements(
    "weak references with callbacks",
    HEAD,
    "",
    "r() is BOX",
    "r = weakref.ref(BOX, print)",
)
expressions(
    "modules",
    "import math, types\nM = types.ModuleType('m')\nM.a = 1",
    "hasattr(math, 'nonsense')",
    "hasattr(math, 'pi')",
    "getattr(math, 'nonsense', 5)",
    "getattr(math, 'pi', 5)",
    "hasattr(M, 'a'), hasattr(M, 'b'), getattr(M, 'b', None)",
    "hasattr(torch._C, 'nonsense')",
)
row(
    "a module lacks what is asked for",
    """
    import math
    def f(x):
        try:
            return x * math.nonsense
        except AttributeError:
            return x * 2
    """,
)
row(
    "a module finds what it does not have",
    """
    import types
    M = types.ModuleType("m")
    M.__getattr__ = lambda name: 7
    def f(x):
        return x * 2, M.nonsense
    """,
)
expressions(
    "objects in sequences",
    """
import enum
class Mode(enum.Enum): A = 1; B = 2; C = 3
class Box: pass
MODE, BOX, OTHER, MODES = Mode.B, Box(), Box(), [Mode.A, Mode.B]
class Config: mode = Mode.C
CONFIG = Config()
""",
    "MODE in (Mode.A, Mode.B)",
    "MODE in [Mode.A, Mode.C]",
    "MODE not in (Mode.C, None, 'b', 2)",
    "CONFIG.mode in MODES, MODE in MODES",
    "BOX in (OTHER, BOX), BOX in (OTHER, 1)",
    "Box in (Box, Mode), Box in [int, str]",
    "Box() in (BOX, OTHER)",
)
expressions(
    "proxies of objects",
    """
import weakref
class Box:
    v = 3
    def __init__(self): self.w = 2
    def scaled(self, x): return x * self.w
BOX = Box()
PROXY = weakref.proxy(BOX)
""",
    "PROXY.v + PROXY.w",
    "PROXY.scaled(x)",
    "getattr(PROXY, 'nothing', 5), hasattr(PROXY, 'w')",
)
