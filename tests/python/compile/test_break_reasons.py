"""Graph breaks by the id of their reason: a small program each, which ends its graph for that reason alone."""

import contextlib
import contextvars
import copy
import decimal
import inspect
import io
import itertools
import random
import re
import sys
import time
import warnings
import weakref
from pathlib import Path

import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

TABLE = Path(__file__).parents[3] / "src/python/interpreter/watch/break_reasons.def"


class Plain:
    def __init__(self):
        self.a = 1


class Slots:
    __slots__ = ("a",)

    def __init__(self):
        self.a = 1


class HashesItself:
    def __hash__(self):
        return 3

    def __eq__(self, other):
        return self is other


class Meta(type):
    pass


ONE, OTHER, SLOTS, KEY, HALF = Plain(), Plain(), Slots(), HashesItself(), 2.5
AMOUNT, THING = decimal.Decimal(1), object()
OBJECTS, BY_KEY, ERROR = {ONE, OTHER}, {}, ValueError("made before")
GENERATOR, ITERATOR = (number for number in range(10**6)), itertools.islice(itertools.count(), 3)

MODULES = (contextvars, copy, inspect, itertools, random, time, warnings, weakref)

# By the reason's id: what stands between y = x + 1 and the result y * 3.
PROGRAMS = {
    "branch_on_tensor": "y = y * 2 if x.sum() > 0 else y",
    "item": "y = y * x.sum().item()",
    "tolist": "y = y + x.tolist()[0][0]",
    "numpy": "y = y + float(x.numpy().sum())",
    "boolean_mask": "y = x[x > 1]",
    "nonzero": "y = x.nonzero()",
    "memory_address": "y = y + x.data_ptr() % 2",
    "device_as_context": "with torch.device('meta'): pass",
    "import_of_module_not_loaded": "import tabnanny",
    "c_function_not_understood": "y = y + time.time() * 0",
    "set_of_objects_changed": "OBJECTS.add(x)",
    "class_not_understood": "Meta('C', (), {})",
    "type_with_more_than_one_argument": "type('C', (), {})",
    "attribute_of_builtin_class_changed": "try: int.of_nobody = 3\n    except TypeError: pass",
    "text_or_set_of_objects": "y = y + len(str(ONE))",
    "text_made_of_object": "y = y + len(f'{ONE}')",
    "weak_reference_to_tensor": "y = weakref.ref(x)() + 1",
    "builtin_class_not_understood": "contextvars.ContextVar('made')",
    "signature_of_object_of_this_kind": "y = y + len(inspect.signature(print).parameters)",
    "copy_of_object_of_this_kind": "copy.deepcopy(THING)",
    "copy_of_object_with_slots": "y = y + copy.copy(SLOTS).a",
    "slot_emptied": "del SLOTS.a",
    "attribute_of_tensor_changed": "x.of_ours = 3",
    "key_hashes_itself": "BY_KEY[KEY] = 1",
    "c_function_given_one_not_understood": "y = y + len(list(map(open, ['/dev/null'])))",
    "c_function_given_unguarded_parts": "y = y + sum(ITERATOR)",
    "codec_may_be_replaced": "y = y + len('abc'.encode('utf-16'))",
    "exception_existed_before_raised": "try: raise ERROR\n    except ValueError: pass",
    "keyword_in_values_of_dict_of_objects": "y = y + (ONE in {'one': ONE, 'other': OTHER}.values())",
    "keyword_is_with_equal_numbers": "y = y + (float(str(2.5)) is HALF)",
    "builtin_function_not_understood": "y = y + len(dir(ONE))",
    "iterator_existed_before_call": "y = y + next(GENERATOR)",
    "method_of_object_of_unknown_origin": "y = y + random.random()",
    "instruction_not_understood": "class Made: pass",
    "warns": "warnings.warn('told')",
    "operand_with_own_operators": "AMOUNT + 1",
}


def program(statement):
    world = {**globals(), **{module.__name__: module for module in MODULES}}
    exec(f"def f(x):\n    y = x + 1\n    {statement}\n    return y * 3", world)
    return world["f"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reason", PROGRAMS)
def test_the_reason_of_a_break(reason):
    sys.modules.pop("tabnanny", None)
    SLOTS.a = 1
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        found = braze.explain(program(PROGRAMS[reason]))(torch.arange(6.0).reshape(2, 3))
    assert {each.id for each in found.break_reasons} == {reason}
    assert all(each.remedy and each.line >= 3 for each in found.break_reasons)


def test_reasons_are_rows_once():
    rows = re.findall(r"^BREAK\((\w+),", TABLE.read_text(), re.MULTILINE)
    assert set(PROGRAMS) <= set(rows)
    assert len(set(rows)) == len(rows)
