"""Never a stale result: every case gives, call by call, what plain Python gives."""

import functools

import cpu_alone
import pytest
import stale_arguments  # noqa: F401  (each registers its cases)
import stale_caches  # noqa: F401
import stale_carried  # noqa: F401
import stale_ccode  # noqa: F401
import stale_classes  # noqa: F401
import stale_containers  # noqa: F401
import stale_copies  # noqa: F401
import stale_effects  # noqa: F401
import stale_finalizers  # noqa: F401
import stale_functions  # noqa: F401
import stale_getters  # noqa: F401
import stale_gradients  # noqa: F401
import stale_identity  # noqa: F401
import stale_interpreter  # noqa: F401
import stale_kernels  # noqa: F401
import stale_kinds  # noqa: F401
import stale_library  # noqa: F401
import stale_lifetimes  # noqa: F401
import stale_memory  # noqa: F401
import stale_modules  # noqa: F401
import stale_numbers  # noqa: F401
import stale_objects  # noqa: F401
import stale_patches  # noqa: F401
import stale_programs  # noqa: F401
import stale_protocols  # noqa: F401
import stale_random  # noqa: F401
import stale_resumed  # noqa: F401
import stale_state  # noqa: F401
import stale_targets  # noqa: F401
import stale_tensors  # noqa: F401
import stale_transforms  # noqa: F401
import stale_values  # noqa: F401
import stale_versions  # noqa: F401
import stale_writes  # noqa: F401
from staleness import CASES, run, specialising

import braze
from braze._load import C


def plain(function):
    return function


def remember_first(function):
    """The mistake that every case must catch: the first call's outcome is given again."""
    outcome = []

    def stale(*args, **kwargs):
        if not outcome:
            try:
                outcome.append((function(*args, **kwargs), None))
            except Exception as error:
                outcome.append((None, error))
        value, error = outcome[0]
        if error:
            raise error
        return value

    return stale


COMPILERS = {"plain": plain}
if hasattr(C, "CompiledFunction"):  # There is an evaluator for this Python.
    # What passes the limit runs natively, with a warning: nothing to be learnt here.
    COMPILERS["braze"] = functools.partial(braze.compile, options={"recompile_limit": 1000})
# All sizes are symbols: for a sample, and the cases that have once been wrong so.
DYNAMIC = functools.partial(braze.compile, dynamic=True, options={"recompile_limit": 1000})
WRONG_ONCE = [
    "lifetimes/modules_as_arguments_are_freed",
    "lifetimes/twelve_modules_as_arguments",
    "patches/added_to_parameter",
    "patches/length",
    "programs/matter_view_and_its_base_as_arguments",
    "programs/modes_inference_argument",
    "programs/oddities_same_tensor_by_operator",
    "programs/oddities_same_tensor_of_transposed",
    "programs/oddities_same_tensor_in_place",
    "programs/oddities_same_tensor_by_module",
    "resumed/layers_weight_written",
    "tensors/inference",
    "tensors/length",
]


def test_there_are_enough_cases():
    assert len(CASES) >= 250


def test_cases_about_the_cpu_alone_are_named_as_they_are():
    named = {name for names in cpu_alone.BY_REASON.values() for name in names if "/" in name}
    assert named <= set(CASES), named - set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_case_tests_something(name):
    """Unchanged calls agree, the change shows, and a compiler that remembers the first call is caught."""
    expected = run(CASES[name], plain)
    if not CASES[name].evolves:
        assert expected[0] == expected[1], "two unchanged calls differ"
        assert any(seen != expected[1] for seen in expected[2:]), "the change does not show"
    assert run(CASES[name], remember_first) != expected, "a stale result is not noticed"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", CASES)
def test_no_stale_result(name, compiler, replays):
    seen = run(CASES[name], COMPILERS[compiler], replays.add)
    assert seen == run(CASES[name], plain)


@pytest.mark.skipif("braze" not in COMPILERS, reason="no evaluator for this Python")
@pytest.mark.parametrize("name", [*WRONG_ONCE, *(name for name in list(CASES)[::8] if name not in WRONG_ONCE)])
def test_no_stale_result_where_sizes_are_symbols(name):
    assert run(CASES[name], DYNAMIC) == run(CASES[name], plain)


@pytest.mark.skipif("braze" not in COMPILERS, reason="no evaluator for this Python")
@pytest.mark.parametrize("name", CASES)
def test_no_stale_result_of_specialised_code(name):
    with specialising(CASES[name]):
        seen = run(CASES[name], COMPILERS["braze"])
        assert seen == run(CASES[name], plain)
