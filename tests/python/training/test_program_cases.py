"""Programs about hooks, graphs that are kept, views, writes, several losses and models, with eager's outcome at the
first call and at replays, with sizes as numbers and as expressions."""

import program_autograd  # noqa: F401  its cases
import program_checkpoints
import program_copies  # noqa: F401  its cases
import program_errors  # noqa: F401  its cases
import program_forces  # noqa: F401  its cases
import program_freed  # noqa: F401  its cases
import program_func  # noqa: F401  its cases
import program_function_effects  # noqa: F401  its cases
import program_functions
import program_graphs  # noqa: F401  its cases
import program_histories  # noqa: F401  its cases
import program_hooks  # noqa: F401  its cases
import program_inner_checkpoints  # noqa: F401  its cases
import program_late_reads  # noqa: F401  its cases
import program_layer_tables  # noqa: F401  its cases
import program_layers  # noqa: F401  its cases
import program_layers_changed  # noqa: F401  its cases
import program_lookups
import program_models  # noqa: F401  its cases
import program_optimizer_tables  # noqa: F401  its cases
import program_optimizers  # noqa: F401  its cases
import program_parameters  # noqa: F401  its cases
import program_recipes  # noqa: F401  its cases
import program_reentrant  # noqa: F401  its cases
import program_saved  # noqa: F401  its cases
import program_second  # noqa: F401  its cases
import program_second_functions  # noqa: F401  its cases
import program_steps  # noqa: F401  its cases
import program_tensors  # noqa: F401  its cases
import program_toggles  # noqa: F401  its cases
import program_training  # noqa: F401  its cases
import program_transforms  # noqa: F401  its cases
import program_transforms_of_sizes  # noqa: F401  its cases
import pytest
import torch
from program_cases import CASES, assert_same, frozen

import braze


def outcome(program, compile):
    torch.manual_seed(0)
    return [frozen(one) for one in program(compile)]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", CASES, ids=lambda p: p.__name__)
def test_as_eager(program, dynamic):
    compiled = []

    def compile(function):
        compiled.append(braze.compile(function, dynamic=dynamic))
        return compiled[-1]

    expected = outcome(program, lambda function: function)
    assert_same(outcome(program, compile), expected, rounds=getattr(program, "rounds", False))
    if program.__name__ in {*program_functions.captured_whole, *program_checkpoints.captured_whole}:
        for function in compiled:
            assert function.operators()["native"] == 0, function.operators()
            assert function.counts()["replayed"] > 0
    if program.__name__ in program_lookups.sparse_cases:
        for function in compiled:
            assert function.counts()["native"] == 0, function.reasons()
            assert function.counts()["replayed"] > 0
            natively = function.operators()
            assert 0 < natively["native"] < natively["compiled"], natively
