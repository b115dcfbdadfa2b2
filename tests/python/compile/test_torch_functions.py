"""Every function of torch.nn.functional and every module of torch.nn, in inference: one graph, or a reason by name.

Arguments are those of PyTorch's own tests (OpInfo, ModuleInfo).
"""

import itertools
import warnings

import pytest
import torch
from compiling import compiled
from torch.nn.parameter import UninitializedParameter

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

MOST_SAMPLES = 12  # Of one function or module.

#: What ends the graph, by its id, where torch.compile's ends too, or the function warns.
WARNS = {"warns"}
BREAKS = {
    "nn.CTCLoss": {"ctc_lengths"},
    "nn.GaussianNLLLoss": {"branch_on_tensor"},
    "nn.KLDivLoss": WARNS,
    "nn.Transformer": {"item"},  # Is the mask a causal one?
    "nn.TransformerEncoder": {"item"},
    "nn.functional.ctc_loss": {"ctc_lengths"},
    "nn.functional.gaussian_nll_loss": {"branch_on_tensor"},
    "nn.functional.kl_div": WARNS,
    "nn.functional.linear_cross_entropy": WARNS,
    **dict.fromkeys((f"nn.functional.max_unpool{d}d" for d in (1, 2, 3)), {"container_unguarded"}),  # A torch.Size.
    "nn.functional.one_hot": {"one_hot"},
    "nn.functional.upsample_bilinear": WARNS,
    "nn.functional.upsample_nearest": WARNS,
}
#: Their forms in PyTorch's tables call more than the function: generators are put back, warnings are caught.
WRAPPED = {
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention",
}


def breaks_of(function, *args, **kwargs):
    """Calls it three times, compares with plain calls, and gives the ids of what ended graphs."""
    fast = compiled(function)
    with torch.no_grad():
        expected = function(*args, **kwargs)
        for _ in range(3):
            torch.testing.assert_close(fast(*args, **kwargs), expected, equal_nan=True)
    report = fast.report()
    ids = {segment["break"]["id"] for segment in report["segments"] if segment["break"]}
    if report["first_break"]:
        ids.add(report["first_break"]["id"])
    return ids


def functional_samples(op):
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=False), MOST_SAMPLES):
        yield sample.input, sample.args, sample.kwargs


FUNCTIONS = sorted(
    {
        op.name: op
        for op in op_db
        if op.name.startswith("nn.functional.") and op.name not in WRAPPED and torch.float32 in op.dtypes
    }.items()
)
MODULES = [info for info in module_db if not info.name.startswith("nn.FractionalMaxPool")]


@pytest.mark.parametrize("op", [op for _, op in FUNCTIONS], ids=[name for name, _ in FUNCTIONS])
@pytest.mark.filterwarnings("ignore")
def test_functional(op):
    function = op.op
    for first, args, kwargs in functional_samples(op):
        found = breaks_of(lambda x, *args, **kwargs: function(x, *args, **kwargs), first, *args, **kwargs)
        assert found <= BREAKS.get(op.name, set()), (args, kwargs)


@pytest.mark.parametrize("info", MODULES, ids=[info.name for info in MODULES])
@pytest.mark.filterwarnings("ignore")
def test_modules(info):
    samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
    for sample in itertools.islice((one for one in samples if one.forward_input), MOST_SAMPLES):
        torch.manual_seed(0)
        module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).eval()
        for parameter in module.parameters():
            if not isinstance(parameter, UninitializedParameter):
                parameter.requires_grad_(False)
        given = sample.forward_input
        found = breaks_of(module, *given.args, **given.kwargs)
        assert found <= BREAKS.get(info.name, set()), (sample.desc, given.args, given.kwargs)


def test_rows_of_sparse_indices():
    """Libraries of graphs call these, although their names begin with an underscore."""

    def function(rows, count):
        ends = torch._convert_indices_from_coo_to_csr(rows, count)
        return ends, torch._convert_indices_from_csr_to_coo(ends, rows, out_int32=True)[1] + 1

    rows = torch.tensor([0, 0, 1, 3, 3])
    assert breaks_of(function, rows, 4) == set()


def test_fake_quantisation():
    scale, zero = torch.tensor([0.1, 0.2]), torch.tensor([0, 1], dtype=torch.int32)

    def f(x):
        a = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
        b = torch.fake_quantize_per_tensor_affine(x, scale[0], zero[0], -128, 127)
        return a + 1, b * 2, torch.fake_quantize_per_channel_affine(x, scale, zero, 0, -128, 127)

    fast = braze.compile(f, fullgraph=True)
    for k in range(3):
        gradients = []
        for function in (fast, f):
            x = (torch.arange(6.0).reshape(2, 3) * 3 + k).requires_grad_()
            results = function(x)
            sum(one.sum() for one in results).backward()
            gradients.append((results, x.grad))
        torch.testing.assert_close(*gradients)
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}
