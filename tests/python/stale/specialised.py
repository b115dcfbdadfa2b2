"""Code as it is after it has run for a while: CPython has specialised it, and jumps and names need wide arguments.

code = specialise(compile(widen(source), ...))   # then run it once or twice natively
"""

import ast
import ctypes
import sys
import types

WIDE = 256  # code units, names, constants and variables that one byte counts
NEVER = ast.parse("if 0:\n" + "".join(f" w{i} = {1000 + i}.5; u{i}\n" for i in range(WIDE))).body[0]


def nothing(beside):
    """A statement that does nothing, on the line of another."""
    made = ast.Expr(ast.copy_location(ast.List([], ast.Load()), beside))  # BUILD_LIST, POP_TOP
    return ast.copy_location(made, beside)


class Widener(ast.NodeTransformer):
    """Every loop's body is longer than a byte counts, and a function's variables, names and constants begin after
    as many that are never used. Lines and meaning stay."""

    def loop(self, node):
        self.generic_visit(node)
        node.body[:0] = [nothing(node)] * (WIDE // 2 + 2)
        return node

    visit_For = visit_While = loop

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        has_text = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        node.body.insert(int(has_text), ast.copy_location(ast.If(NEVER.test, NEVER.body, []), node))
        return node


def widen(source):
    """The same program, with wide arguments."""
    return Widener().visit(ast.parse(source))


def codes_of(code):
    """A code object and those in its constants."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def specialise(code):
    """Has CPython begin with it at the next native run, rather than after eight."""
    if sys.version_info[:2] == (3, 11):
        co_warmup = object.__basicsize__ + tuple.__itemsize__ + 3 * tuple.__itemsize__ + ctypes.sizeof(ctypes.c_int)
        for one in codes_of(code):
            counter = ctypes.c_short.from_address(id(one) + co_warmup)
            if counter.value < 0:
                counter.value = -1
    return code


def is_specialised(code):
    return code._co_code_adaptive != code.co_code
