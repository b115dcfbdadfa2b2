"""Rows of test_language.py: text of objects whose classes say how they are written; keys that C code is given."""

from language import expressions, row

HEAD = """
import dataclasses, enum
class Level(enum.IntEnum): LOW = 1; HIGH = 2
class Kind(enum.Enum): A = 'a'; B = 'b'
class Mode(str, enum.Enum): A = 'a'; B = 'b'
class Bits(enum.Flag): X = 1; Y = 2
@dataclasses.dataclass
class Shape: rows: int = 1; kind: Kind = Kind.A
class Said:
    def __init__(self, n): self.n = n
    def __repr__(self): return f'Said({self.n})'
class Cut(Said):
    def __format__(self, spec): return spec * self.n
class Number:
    def __int__(self): return 7
    def __float__(self): return 1.5
    def __str__(self): return 'number'
    def __repr__(self): return 'n'
s, c, n, shape = Said(3), Cut(2), Number(), Shape()
"""

expressions(
    "text of members of enums",
    HEAD,
    *(
        "str(Level.LOW)",
        "repr(Level.LOW)",
        "f'{Level.HIGH}'",
        "f'{Level.HIGH:>4}'",
        "f'{Level.HIGH!r}'",
        "'%d' % Level.LOW",
    ),
    *(
        "'%s' % Level.LOW",
        "'%s %s' % (Level.LOW, 'a')",
        "'{}'.format(Level.LOW)",
        "'%s' % Kind.A",
        "'%r' % (Kind.A,)",
    ),
    *(
        "'{} {!r}'.format(Kind.A, Kind.B)",
        "'%s' % Mode.B",
        "'{}'.format(Mode.B)",
        "'%s' % (Mode.A,)",
        "str(Mode.A)",
    ),
    *("f'{Bits.X}'", "'%s' % Bits.X", "'{0} {1:>9} {0!s}'.format(Kind.A, Mode.A)", "'{k}'.format(k=Kind.B)"),
)
expressions(
    "text of objects",
    HEAD,
    *("'%s' % s", "'%r %s' % (s, s)", "'{}'.format(s)", "'{0!r:>9}'.format(s)", "'%s' % c", "'{:z}'.format(c)"),
    *(
        "'%d' % n",
        "'%.1f' % n",
        "'%s and %r' % (n, n)",
        "'%s' % Said(5)",
        "'{}'.format(Cut(2))",
        "str(s)",
        "f'{c:ab}'",
    ),
    *("'%s' % shape.kind", "'{}'.format(x.dtype)"),
)
expressions(
    "keys that C code is given",
    "d = {'a': torch.ones(1), 'b': 2}\nimport collections\no = collections.OrderedDict(q=1, p=2)",
    *(
        "[*map(str.upper, d)]",
        "list(map(str.upper, d.keys()))",
        "sorted(d, key=str.lower)",
        "max(d, key=str.upper)",
    ),
    *(
        "list(map(len, d))",
        "[*map(str.upper, {'x': x, 'y': x})]",
        "list(filter(str.isalpha, o))",
        "list(map(str.title, o))",
    ),
)
row(
    "text of an address",
    """
    class A: pass
    a = A()
    def f(x): return x + 1, len('%s' % a) > 3, len('{}'.format(a)) > 3
    """,
    breaks=1,
)
row(
    "text that names parts",
    """
    class A:
      n = 3
      def __repr__(self): return 'a'
    a = A()
    def f(x): return x + 1, '{0.n}'.format(a)
    """,
    breaks=1,
)
