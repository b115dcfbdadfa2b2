"""torch.utils.checkpoint with use_reentrant=True within compiled functions: the first run is without gradients, the
second has a backward of its own, which hooks may see."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import functools
import warnings

import torch
from program_cases import attempt, case, grads_of, leaf, mlp
from program_checkpoints import captured_whole
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, checkpoint_sequential
from torch.utils.checkpoint import create_selective_checkpoint_contexts as selective_contexts

again = functools.partial(checkpoint, use_reentrant=True)


class Block(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.norm, self.layer, self.drop = nn.LayerNorm(n), nn.Linear(n, n), nn.Dropout(0.3)

    def forward(self, h, scale=None):
        h = h + self.drop(self.layer(self.norm(h)).tanh())
        return h if scale is None else h * scale


# What is done with a model of three blocks and an input of which gradients are wanted, and whether it is one graph.
PARTS = {
    "a_module": (lambda m, x: again(m[1], m[0](x)), True),
    "modules_in_a_row": (lambda m, x: again(m[2], again(m[1], again(m[0], x))), True),
    "one_module_twice": (lambda m, x: again(m[1], again(m[1], x)), True),
    "a_leaf": (lambda m, x: again(torch.sin, x), True),
    "an_argument_beside": (lambda m, x: again(m[0], x, torch.full((4,), 0.5)), True),
    "two_that_want_gradients": (lambda m, x: again(m[0], x, m[1].layer.bias), True),
    "one_that_has_a_gradient_elsewhere": (lambda m, x: again(m[0], x, x.detach()) + x, True),
    "a_method": (lambda m, x: again(m[1].__call__, m[0](x)), True),
    "a_number": (lambda m, x: again(m[0], x, 0.5), True),
    "one_within_another": (lambda m, x: again(lambda h: again(m[1], m[0](h)).sin(), x), False),
    "one_of_the_other_kind_within": (
        lambda m, x: again(lambda h: checkpoint(m[1], m[0](h), use_reentrant=False), x),
        True,
    ),
    "within_one_of_the_other_kind": (
        lambda m, x: checkpoint(lambda h: again(m[1], m[0](h)), x, use_reentrant=False),
        True,
    ),
    "several_results": (lambda m, x: sum(again(lambda h: (m[0](h), m[1](h).cos()), x)), True),
    "an_integer_result": (lambda m, x: again(lambda h: (m[0](h), h.argmax(-1)), x)[0], True),
    "a_row": (lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=True), True),
    "a_view": (lambda m, x: again(lambda h: m[0](h).view(-1, 2, 2).transpose(1, 2), x).flatten(1), True),
    "a_list": (lambda m, x: again(lambda h: [m[0](h), h * 2], x)[0] + m[1](x), False),
    "a_dict": (lambda m, x: again(lambda h: {"h": m[0](h)}, x)["h"] + m[1](x), False),
    "its_input": (lambda m, x: again(lambda h: (h, m[0](h)), m[1](x))[0], False),
    "a_detached_result": (lambda m, x: again(lambda h: (m[0](h), h.detach() * 2), x)[0], False),
    "a_detached_result_that_is_used": (lambda m, x: again(lambda h: (m[0](h), h.detach() * 2), x)[1], False),
    "no_input_that_wants_gradients": (lambda m, x: again(m[0], x.detach()) + m[1](x), False),
    "tensors_in_a_list": (lambda m, x: again(lambda hs: m[0](hs[0]), [x]) + m[1](x), False),
    "what_it_closes_over": (lambda m, x: (lambda o: again(lambda h: m[0](h) * o, x))(m[1](x)), False),
    "arguments_by_name": (lambda m, x: again(m[0], x, scale=2), False),
    "without_random_states": (lambda m, x: again(m[0], x, preserve_rng_state=False), False),
    "without_random_numbers": (lambda m, x: again(m[0].layer, x, preserve_rng_state=False), True),
    "a_write": (lambda m, x: again(lambda h: m[0](h).mul_(2), x), True),
}


def reentrant(run):
    def program(compile):
        model = nn.Sequential(Block(), Block(), Block())
        f = compile(lambda x: run(model, x).square().sum())
        for n in (3, 3, 4, 3, 5):
            x = leaf(n, 4)
            yield attempt(lambda: f(x).backward()), x.grad, grads_of(model), torch.rand(1)
        model.eval()
        for n in (3, 4, 3):
            model.zero_grad()
            x = leaf(n, 4)
            yield attempt(lambda: f(x).backward()), x.grad, grads_of(model)

    return program


for name, (run, is_whole) in PARTS.items():
    program = reentrant(run)
    program.__name__ = f"reentrant_checkpoint_of_{name}"
    case(program)
    if is_whole:
        captured_whole.add(program.__name__)


@case
def reentrant_checkpoints_that_hooks_see(compile):
    """A parameter of two checkpoints has its hooks called twice in one backward."""
    model, seen = nn.Sequential(Block(), Block()), []
    f = compile(lambda x: again(model[0], again(model[1], again(model[0], x))).sum())
    set_on = {
        1: lambda p: p.register_hook(lambda g: g.clamp(max=0.01)),
        2: lambda p: p.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone())),
    }
    for k in range(6):
        model.zero_grad()
        handle = set_on[k % 3](model[0].layer.weight) if k % 3 else None
        x = leaf(3, 4)
        f(x).backward()
        yield x.grad, grads_of(model), list(seen)
        seen.clear()
        if handle:
            handle.remove()


@case
def reentrant_checkpoints_without_gradients(compile):
    """They warn where they are given what was computed without."""
    model = nn.Sequential(Block(), Block())
    for run in (lambda x: again(model[0], x), lambda x: again(model[1], model[0](x))):
        f = compile(run)
        for n in (3, 3, 4, 3):
            with torch.no_grad(), warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                yield f(leaf(n, 4)), [str(one.message) for one in told]


@case
def reentrant_checkpoints_that_warn_within_others(compile):
    model = nn.Sequential(Block(), Block())
    f = compile(lambda x: again(lambda h: again(model[1], model[0](h)), x).sum())
    for n in (3, 3, 4, 3):
        x = leaf(n, 4)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            f(x).backward()
        yield x.grad, grads_of(model), [str(one.message) for one in told]


@case
def reentrant_checkpoints_whose_inputs_begin_to_want_gradients(compile):
    model = nn.Sequential(Block(), Block())
    f = compile(lambda x: model[1](again(model[0], x)).sum())
    for wants in (False, True, False, True, True, False):
        model.zero_grad()
        x = torch.randn(3, 4).requires_grad_(wants)
        f(x).backward()
        yield x.grad, grads_of(model)


# ---- functions that say which operators' results are kept

PRODUCTS = (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
counted = {"products": 0}


def products(context, operator, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if operator in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def small_ones(context, operator, *args, **kwargs):
    keeps = not context.is_recompute and args[0].ndim < 2
    return CheckpointPolicy.PREFER_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE


def counting(context, operator, *args, **kwargs):
    counted["products"] += operator in PRODUCTS
    return CheckpointPolicy.PREFER_RECOMPUTE


def calling(context, operator, *args, **kwargs):
    print(end="")
    return CheckpointPolicy.PREFER_RECOMPUTE


for name, pick, is_whole in (
    ("products", products, True),
    ("small_ones", small_ones, True),
    ("and_counts", counting, False),
    ("and_calls", calling, False),
):

    def picks(compile, pick=pick):
        counted["products"] = 0
        model = mlp()
        f = compile(
            lambda x: checkpoint(
                model, x, use_reentrant=False, context_fn=functools.partial(selective_contexts, pick)
            ).sum()
        )
        for n in (3, 3, 4, 3):
            model.zero_grad()
            x = leaf(n, 4)
            yield attempt(lambda: f(x).backward()), x.grad, grads_of(model), counted["products"]

    picks.__name__ = f"checkpoint_within_for_which_a_function_picks_{name}"
    case(picks)
    if is_whole:
        captured_whole.add(picks.__name__)


@case
def checkpoint_within_for_which_other_functions_pick(compile):
    counted["products"] = 0
    model, given = mlp(), [products]
    f = compile(
        lambda x: checkpoint(
            model, x, use_reentrant=False, context_fn=functools.partial(selective_contexts, given[0])
        ).sum()
    )
    for given[0] in (products, products, counting, small_ones, counting):
        model.zero_grad()
        yield attempt(lambda: f(torch.ones(3, 4)).backward()), grads_of(model), counted["products"]
