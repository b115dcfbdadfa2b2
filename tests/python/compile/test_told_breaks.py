"""Graph breaks by the id of their reason: a small program each, which ends its graph for that reason alone.

PROGRAMS has single statements; breaks/*.txt has programs, each in a world of its own (breaks/world.py):

# id | trained | also another_id           gradients are wanted; another break comes first
def f(x): return g(x)  # breaks: why       called with a tensor of 2 x 3, by around(f, x) if there is one

The line with `# breaks:` is the one that is told, unless the program is `elsewhere`: then it is another file's, or
none. Of a `native` one, whose whole call runs natively, the reason is that of the call.
"""

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
import types
import warnings
import weakref
from pathlib import Path

import pytest
import torch
from compiling import same

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


class Asked(Slots):
    def __getattr__(self, name):
        raise AttributeError(name)


class HashesItself:
    def __hash__(self):
        return 3

    def __eq__(self, other):
        return self is other


class Meta(type):
    pass


WITHOUT_OBJECT = decimal.Decimal(1).is_zero
ONE, OTHER, SLOTS, KEY, HALF = Plain(), Plain(), Slots(), HashesItself(), 2.5
ASKED = Asked()
AMOUNT, THING = decimal.Decimal(1), object()
OBJECTS, BY_KEY, ERROR = {ONE, OTHER}, {}, ValueError("made before")
GENERATOR, ITERATOR = (number for number in range(10**6)), itertools.islice(itertools.count(), 3)

MODULES = (contextvars, copy, inspect, itertools, random, time, warnings, weakref)

# By the reason's id: what stands between y = x + 1 and the result y * 3.
PROGRAMS = {
    "branch_on_tensor": "y = y * 2 if x.sum() > 0 else y",
    "item": "y = y * x.sum().item()",
    "tolist": "y = y + x.tolist()[0][0]",
    "numpy": "y = y + x.numpy().view().sum()",
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
    "copy_of_object_with_slots": "y = y + copy.copy(ASKED).a",
    "slot_emptied": "del SLOTS.a",
    "attribute_of_tensor_changed": "try: x.retains_grad = 3\n    except AttributeError: pass",
    "key_hashes_itself": "BY_KEY[KEY] = 1",
    "c_function_given_one_not_understood": "y = y + len(sorted(['/dev/null'], key=sys.getsizeof))",
    "c_function_given_unguarded_parts": "y = y + sum(ITERATOR)",
    "codec_may_be_replaced": "y = y + len('abc'.encode('utf-16'))",
    "exception_existed_before_raised": "try: raise ERROR\n    except ValueError: pass",
    "keyword_in_values_of_dict_of_objects": "y = y + (ONE in {'one': ONE, 'other': OTHER}.values())",
    "keyword_is_with_equal_numbers": "y = y + (float(str(2.5)) is HALF)",
    "builtin_function_not_understood": "y = y + len(dir(ONE))",
    "iterator_existed_before_call": "y = y + next(GENERATOR)",
    "method_of_object_of_unknown_origin": "y = y + WITHOUT_OBJECT()",
    "random_numbers": "y = y + random.getrandbits(100) * 0",
    "instruction_not_understood": "global GONE; GONE = 1; del GONE",
    "class_made_by_function": "class Made: pass",
    "warns": "warnings.warn(UserWarning('told'))",
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


FOLDER = Path(__file__).parent / "breaks"


def read():
    for path in sorted(FOLDER.glob("*.txt")):
        for program in path.read_text().split("\n# ")[1:]:
            header, _, source = program.partition("\n")
            name, *options = header.strip().split(" | ")
            yield name, options, source


def made(source):
    """The program's module, new, with the same random numbers."""
    torch.manual_seed(0)
    module = types.ModuleType("program")
    world = FOLDER / "world.py"
    exec(compile(world.read_text(), str(world), "exec"), module.__dict__)
    exec(compile(source, "program.py", "exec"), module.__dict__)
    return module


def called(module, function):
    """Three calls: results, or what is raised."""
    outcomes = []
    for _ in range(3):
        x = torch.arange(6.0).reshape(2, 3)
        try:
            outcomes.append(module.around(function, x) if hasattr(module, "around") else function(x))
        except Exception as error:
            outcomes.append((type(error), str(error)))
    return outcomes


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reason, options, source", [pytest.param(*program, id=program[0]) for program in read()])
def test_the_reason_and_place_of_a_break(reason, options, source):
    (line,) = (number for number, text in enumerate(source.split("\n"), 1) if "# breaks: " in text)
    told = source.split("\n")[line - 1].partition("# breaks: ")[2]
    with contextlib.nullcontext() if "trained" in options else torch.no_grad():
        plain, module = made(source), made(source)
        wanted = called(plain, plain.f)
        compiled = braze.compile(module.f)
        same(called(module, compiled), wanted)
    report = compiled.report()
    breaks = [segment["break"] for segment in report["segments"] if segment["break"]] or [report["first_break"]]
    if "native" in options:
        assert any(told in text for text in compiled.reasons()), compiled.reasons()
        return
    also = [option.removeprefix("also ") for option in options if option.startswith("also ")]
    assert {each["id"] for each in breaks} == {reason, *also}
    for each in breaks:
        assert each["remedy"] == C.break_reasons[each["id"]][1] != ""
        if each["id"] == reason:
            assert each["reason"] == told
            assert "elsewhere" in options or (each["file"], each["line"]) == ("program.py", line)


# What no program of a Python test reaches here, and why.
UNREACHED = {
    "autograd_function_with_gradients": "other compilers' backends alone: training/test_program_cases.py",
    "operator_with_python_gradient": "operators that torch.library.define makes: likewise",
    "backward_within": "whole steps of training end there: training/test_whole_steps.py",
    "schedule_within": "likewise",
    "saved_tensor_hooks": "told of frames that a native piece enters: training/test_backward_calls.py",
    "super_replaced": "CPython 3.12 and later",
    "super_with_object_of_unknown_origin": "CPython 3.12 and later",
    "super_with_object_of_another_class": "CPython 3.12 and later",
    "slice_of_dict": "CPython 3.12 and later",
    "slice_stored_into": "CPython 3.12 and later",
    "another_thread_changes_it": "another thread must change it within one instruction: test_other_threads.py does",
    "no_memory": "Python itself has none",
    "run_was_to_end_here": "where a run ends that is repeated: never told",
    "end_of_function": "where the run of a frame ends as it should: never told",
    "returns_otherwise": "a run that ends neither before an instruction nor by an error: there is none",
    "argument_not_passed": "a backend's program that takes other arguments than were recorded",
    "value_read": "readers of values have rows of their own, by operator: for those to come",
    "tensor_of_unknown_origin": "tensors are found over paths that are followed: for paths to come",
    "attribute_of_tensor_of_unknown_origin": "likewise",
    "branch_on_value_of_unknown_origin": "of a container; all containers are found over paths that are followed",
    "function_of_unknown_origin": "likewise, of a function",
    "class_unguarded": "an object at the end of a path of 400 steps",
    "property_unguarded": "likewise",
    "one_of_many": "told when some calls have asked for other values: test_one_of_many.py",
    "array_of_number": "of numbers that vary alone: test_arrays_of_numbers.py",
    "counted_objects": "Counter counts by a stand-in; the C function that it stands in for has no other caller",
}


def test_every_reason_has_a_program():
    """A row that nothing reaches is dead."""
    rows = re.findall(r"^BREAK\((\w+),", TABLE.read_text(), re.MULTILINE)
    programs = {*PROGRAMS, *(name for name, _, _ in read())}
    assert programs.isdisjoint(UNREACHED)
    assert sorted(set(rows) - programs - set(UNREACHED)) == []
    assert sorted((programs | set(UNREACHED)) - set(rows)) == []


def test_reasons_are_rows_once():
    rows = re.findall(r"^BREAK\((\w+),", TABLE.read_text(), re.MULTILINE)
    assert set(PROGRAMS) <= set(rows)
    assert len(set(rows)) == len(rows)
