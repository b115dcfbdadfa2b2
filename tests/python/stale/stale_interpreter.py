"""Switches of the interpreter that functions without arguments for them depend on."""

import codecs
import sys

from staleness import case, module, tensor


def digits(name, expression):
    @case(name=f"digits of {name}")
    def made():
        m = module(f"N = 10 ** 700\nT = '1' * 700\ndef f(x): return x + 1, {expression}")
        before = sys.get_int_max_str_digits()
        try:
            yield m.f, tensor()
            sys.set_int_max_str_digits(640)
            yield (tensor(),)
        finally:
            sys.set_int_max_str_digits(before)


for expression in (
    "len(str(10 ** 700))",
    "len(repr(N))",
    "len(f'{N}')",
    "len('%d' % N)",
    "len('{}'.format(N))",
    "int(T) > 5",
    "len(str([N]))",
    "len(''.join(map(str, [N])))",
    "len(format(N, 'd'))",
    "max(map(int, [T])) > 5",
    "int(T, 10) > 5",
):
    digits(expression, expression)

HANDLERS = iter(range(1000))


def handler(expression):
    @case(name=f"handler of {expression}")
    def made():
        own = f"braze-test-{next(HANDLERS)}"
        codecs.register_error(own, lambda error: ("?", error.end))
        m = module(f"def f(x): return x + 1, {expression.replace('OWN', own)}")
        yield m.f, tensor()
        codecs.register_error(own, lambda error: ("!!", error.end))


for expression in (
    "'a\\xe9'.encode('ascii', 'OWN')",
    "'a\\xe9'.encode('ascii', errors='OWN')",
    "b'a\\xe9'.decode('ascii', 'OWN')",
    "str(b'a\\xe9', 'ascii', 'OWN')",
    "bytes('a\\xe9', 'ascii', 'OWN')",
):
    handler(expression)


def recursion(name, source):
    @case(name=f"recursion {name}")
    def made():
        m = module(f"{source}\ndef f(x): return x * g(60)")
        before = sys.getrecursionlimit()
        depth, frame = 0, sys._getframe()
        while frame:
            depth, frame = depth + 1, frame.f_back
        try:
            yield m.f, tensor()
            sys.setrecursionlimit(depth + 50)
            yield (tensor(),)
        finally:
            sys.setrecursionlimit(before)


recursion("of a function", "def g(n): return 1 if n == 0 else 1 + g(n - 1)")
recursion(
    "of two functions", "def g(n): return 1 if n == 0 else h(n - 1)\ndef h(n): return 1 if n == 0 else g(n - 1)"
)
