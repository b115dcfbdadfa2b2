"""Functions of PyTorch that take functions, and those whose shapes the data decides: one graph, or a reason."""

import textwrap
import warnings

import pytest
import torch
from compiling import compiled, same
from processes import fresh
from torch import nn
from torch._functorch import vmap as vmap_module

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.randn(4, 5)
W = torch.randn(5, 5)
INDICES = torch.tensor([0, 2, 1])
torch.testing.assert_close(X, X)  # Registers classes that torch.utils._pytree takes apart.


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def check_whole(function, *calls, oracle=None):
    """All calls as `oracle` has them (by default the function itself), in one graph a kind of call."""
    (oracle or function)(*calls[0])  # What PyTorch loads when it is first used is loaded natively.
    fast = compiled(function)
    for _ in range(3):
        for arguments in calls:
            same(fast(*arguments), (oracle or function)(*arguments))
    report = fast.report()
    assert report["first_break"] is None, report["first_break"]
    assert fast.counts()["native"] == 0
    assert fast.counts()["captured"] <= len(calls)
    return fast


# ---- transforms of torch.func


def test_vmap():
    check_whole(lambda x: torch.vmap(lambda row: (row.sin() * 2).sum())(x), (X,), (-X,))
    check_whole(lambda x: torch.vmap(torch.dot)(x, x + 1), (X,))
    check_whole(lambda x: torch.vmap(lambda a, w: w @ a + 1, in_dims=(0, None))(x, W), (X,))
    check_whole(lambda x: torch.vmap(lambda a: torch.softmax(a, -1), in_dims=1, out_dims=1)(x), (X,))
    check_whole(lambda x: torch.func.vmap(lambda d: d["a"] * d["b"][0])({"a": x, "b": [x + 1]}), (X,))
    check_whole(lambda x: torch.vmap(torch.vmap(lambda a: a * a.sin()))(x), (X,))


def test_vmap_of_a_module():
    net = nn.Sequential(nn.Linear(5, 3), nn.ReLU()).requires_grad_(False)
    check_whole(lambda x: torch.vmap(net)(x), (X,), (X * 2,))


def test_a_part_of_vmap_that_is_replaced(monkeypatch):
    original, factor = vmap_module._process_batched_inputs, [2]

    def _process_batched_inputs(in_dims, args, func):
        return original(in_dims, tuple([arg * factor[0] for arg in args]), func)

    def f(x):
        return torch.vmap(lambda row: row.sum())(x) + 1

    monkeypatch.setattr(vmap_module, "_process_batched_inputs", _process_batched_inputs)
    fast = check_whole(f, (X,))
    factor[0] = 3
    same(fast(X), f(X))
    monkeypatch.setattr(vmap_module, "_process_batched_inputs", lambda *args: _process_batched_inputs(*args))
    same(fast(X), f(X))


def test_vmap_that_was_made_before():
    scale = [2.0]
    batched = torch.vmap(lambda row: (row * scale[0]).sum())
    fast = compiled(lambda x: batched(x) + 1)
    for value in (2.0, 2.0, 3.0, 3.0, 2.0):
        scale[0] = value
        same(fast(X), batched(X) + 1)
    assert fast.report()["first_break"] is None


def test_gradients_of_functions():
    check_whole(lambda x: torch.func.grad(lambda a: (a.sin() * a).sum())(x), (X,), (X + 1,))
    check_whole(lambda x: torch.func.grad_and_value(lambda a: (a @ W).pow(2).sum())(x), (X,))
    check_whole(lambda x: torch.func.vjp(torch.sin, x)[1](x)[0] + 1, (X,))
    check_whole(lambda x: torch.func.jacrev(lambda a: a.sin() * a)(x[0]), (X,))
    check_whole(lambda x: torch.func.vmap(torch.func.grad(lambda a: (a.sin() @ W).sum()))(x), (X,))


def test_forward_gradients_of_functions():
    """Right, and not yet in one graph."""
    for function in (
        lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
        lambda x: torch.func.jacfwd(lambda a: a.sin() * a)(x[0]),
        lambda x: torch.func.hessian(lambda a: (a**3).sum())(x[0]),
    ):
        fast = compiled(function)
        for _ in range(3):
            same(fast(X), function(X))
        assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0


def test_functional_call():
    net = nn.Linear(5, 3).requires_grad_(False)
    check_whole(lambda x: torch.func.functional_call(net, {"weight": x[:3] * 2}, (x,)), (X,), (X + 1,))


def test_a_break_inside_of_a_transform():
    """Nothing of the transform is left behind where it was given up."""

    def inner(row):
        print(end="")
        return row * 2

    fast = compiled(lambda x: torch.vmap(inner)(x + 1) + 1)
    for _ in range(3):
        same(fast(X), (X + 1) * 2 + 1)
        assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    fast = compiled(lambda x: torch.func.jvp(inner, (x,), (x,))[1] + 1)
    for _ in range(3):
        same(fast(X), X * 2 + 1)
        assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
        assert torch.autograd.forward_ad._current_level == -1
    same(torch.func.jvp(torch.sin, (X,), (X,))[1], X.cos() * X)


def test_a_compiled_function_under_a_transform():
    fast = compiled(lambda row: (row * 2).sum())
    same(fast(X[0]), (X[0] * 2).sum())
    for _ in range(3):
        same(torch.vmap(fast)(X), (X * 2).sum(1))
        same(torch.func.grad(fast)(X), torch.full_like(X, 2))
    assert any("transform" in reason for reason in fast.reasons())


def test_trees():
    check_whole(lambda x: torch.utils._pytree.tree_map(torch.sin, {"a": x, "b": [x + 1, (x * 2,)]}), (X,))

    def rebuilt(x):
        leaves, spec = torch.utils._pytree.tree_flatten([x, {"k": (x + 1, 3)}])
        return torch.utils._pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec)

    check_whole(rebuilt, (X,))


# ---- higher-order operators


def plain_cond(pred, true_fn, false_fn, operands):
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def test_cond_of_a_bool():
    check_whole(
        lambda x: torch.cond(x.shape[0] > 3, lambda a: a + 1, lambda a: a - 1, (x,)), (X,), (X[:2].clone(),)
    )


def test_cond_of_a_tensor():
    def branch(run):
        return lambda x: run(x.sum() > 0, lambda a: (a + 1, [a.sin()]), lambda a: (a - 1, [a * 2]), (x,))

    check_whole(branch(torch.cond), (X,), (X.abs(),), (-X.abs(),), oracle=branch(plain_cond))


def test_cond_with_an_effect_runs_natively():
    def f(x):
        return torch.cond(x.sum() > 0, lambda a: a.add_(1) * 2, lambda a: a - 1, (x.clone(),))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            f(X)
        except Exception as refused:
            pytest.skip(f"refused by this PyTorch: {type(refused).__name__}")
        fast = compiled(f)
        for one in (X.abs(), -X.abs()):
            same(fast(one), (one + 1) * 2 if one.sum() > 0 else one - 1)


def test_while_loop():
    def plain(condition, body, carried):
        while bool(condition(*carried)):
            carried = body(*carried)
        return carried

    def known(run):
        return lambda x: run(lambda i, a: i < 4, lambda i, a: (i + 1, a * 2 + i), (torch.zeros(()), x))

    check_whole(known(torch.while_loop), (X,), (X + 1,), oracle=known(plain))


def test_scan_and_map():
    scan = pytest.importorskip("torch._higher_order_ops.scan").scan
    mapped = pytest.importorskip("torch._higher_order_ops.map").map

    def running(x):
        return scan(lambda carry, row: (carry + row, carry * row), x[0] * 0, x)

    def plain_running(x):
        carry, rows = x[0] * 0, []
        for row in x:
            rows.append(carry * row)
            carry = carry + row
        return carry, torch.stack(rows)

    check_whole(running, (X,), oracle=plain_running)
    check_whole(
        lambda x: mapped(lambda row, y: row * y, x, x[0]), (X,), oracle=lambda x: torch.stack([r * x[0] for r in x])
    )


def test_scan_along_other_dimensions():
    """Those of the results are counted from the front, by the operand's."""
    scan = pytest.importorskip("torch._higher_order_ops.scan").scan

    def running(dim, reverse):
        def step(carry, row):
            return carry + row, (carry * row).unsqueeze(-1) + torch.zeros(4)

        return lambda x: scan(step, x.select(dim, 0) * 0, x, dim=dim, reverse=reverse)

    x = torch.randn(2, 3, 5)
    for dim in (0, 1, 2, -1, -2, -3):
        for reverse in (False, True):
            check_whole(running(dim, reverse), (x,))


def test_foreach_map():
    foreach_map = pytest.importorskip("torch._higher_order_ops.foreach_map").foreach_map
    check_whole(lambda x: foreach_map(torch.add, [x, x * 2, x], (x, x + 1)), (X,))
    check_whole(lambda x: foreach_map(lambda a, b, c: a * b.sin() + c, [x, x + 1], [x, x], 2.0), (X,), (-X,))
    check_whole(lambda x: foreach_map(torch.mul, x, x + 1), (X,))


def test_scan_over_nothing():
    scan = pytest.importorskip("torch._higher_order_ops.scan").scan
    check_whole(lambda x: scan(lambda carry, row: (carry, row), x + 1, []), (X,))


def test_associative_scan():
    module = pytest.importorskip("torch._higher_order_ops.associative_scan")
    scan = module.associative_scan
    check_whole(lambda x: scan(lambda a, b: a + b, x, dim=0, combine_mode="generic") + 0, (X,))


# ---- modules that look at their masks


def encoder(norm=None, **choices):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **choices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.TransformerEncoder(layer, 2, norm=norm).eval().requires_grad_(False)


@pytest.mark.parametrize("norm", [None, nn.LayerNorm(8)])
@pytest.mark.filterwarnings("ignore")
def test_encoder_with_padding(norm):
    """Eager leaves padding at the ends out, and has zeros there; padding elsewhere is computed."""
    net = encoder(norm).requires_grad_(False)
    if norm is not None:
        norm.bias.fill_(0.5)
    x = torch.randn(2, 4, 8)
    left = torch.tensor([[False, False, True, True], [False, False, False, False]])
    mixed = torch.tensor([[False, True, False, True], [False, False, False, True]])
    masked = left.new_zeros(2, 4)
    fast = compiled(lambda x, padding: net(x, src_key_padding_mask=padding))
    for padding in (left, mixed, masked, left):
        torch.testing.assert_close(fast(x, padding), net(x, src_key_padding_mask=padding), rtol=1e-4, atol=1e-5)
    assert fast.report()["first_break"] is None
    assert fast.counts() == {"captured": 1, "replayed": 3, "native": 0}


@pytest.mark.filterwarnings("ignore")
def test_attention_with_masks():
    net = nn.MultiheadAttention(8, 2, batch_first=True).eval().requires_grad_(False)
    x = torch.randn(2, 4, 8)
    padding = torch.tensor([[False, False, True, True], [False, False, False, True]])
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    check_whole(lambda x: net(x, x, x, need_weights=False)[0], (x,))
    check_whole(lambda x: net(x, x, x, key_padding_mask=padding)[0], (x,))
    check_whole(lambda x: net(x, x, x, attn_mask=causal, need_weights=True, average_attn_weights=False)[1], (x,))
    check_whole(lambda x: net(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0], (x,))


# ---- shapes and values that the data decides

READS = {
    "boolean_mask": lambda x: (x + 1)[x > 0] + 1,
    "masked_select": lambda x: (x + 1).masked_select(x > 0) * 2,
    "nonzero": lambda x: (x + 1)[torch.where(x[:, 0] > 0)[0]],
    "unique": lambda x: torch.unique(x.long() + 1) + 1,
    "one_hot": lambda x: torch.nn.functional.one_hot(x.abs().long() + 1) + 1,
    "repeat_interleave": lambda x: torch.repeat_interleave(x + 1, INDICES.repeat(2)[:4] + 0 * x[:, 0].long(), 0),
    "bincount": lambda x: torch.bincount(x.abs().long().flatten() + 1) + 1,
    "item": lambda x: x + (x + 1).sum().item(),
    "tolist": lambda x: (x + 1).sum(1).tolist()[0] + x,
    "numpy": lambda x: x + (x + 1).numpy().view().sum(),
    "compared_whole": lambda x: x + torch.equal(x + 1, x),
    "packed_sequence": lambda x: (
        nn.utils.rnn.pack_padded_sequence(x[..., None] + 1, 5 - x[:, 0].long() * 0, batch_first=True).data * 2
    ),
    "branch_on_tensor": lambda x: x + 1 if (x + 1).sum() > 0 else x,
}


@pytest.mark.parametrize("reason", READS)
def test_reads_have_reasons_of_their_own(reason):
    function = READS[reason]
    fast = compiled(function)
    for _ in range(3):
        same(fast(X), function(X))
    report = fast.report()
    assert report["first_break"]["id"] == reason
    assert report["first_break"]["reason"].startswith(C.break_reasons[reason][0])
    assert report["first_break"]["remedy"] == C.break_reasons[reason][1]


def test_one_hot_refuses_what_is_no_class():
    def f(index):
        return nn.functional.one_hot(index, 3) + 1

    fast = compiled(f)
    same(fast(INDICES), f(INDICES))
    for bad in (INDICES + 1, INDICES - 1):
        with pytest.raises(RuntimeError) as ours:
            fast(bad)
        with pytest.raises(RuntimeError) as eagers:
            f(bad)
        assert str(ours.value) == str(eagers.value)
    same(fast(INDICES), f(INDICES))


def test_lengths_that_are_known():
    check_whole(
        lambda x: nn.utils.rnn.pack_padded_sequence(x[..., None] + 1, [5, 4, 3, 2], batch_first=True).data * 2, (X,)
    )


def test_data_of_a_parameter_that_is_replaced():
    weight = nn.Parameter(torch.ones(5))
    fast = compiled(lambda x: x * weight.data + 1)
    for value in (1.0, 1.0, 2.0, 3.0):
        weight.data = torch.full((5,), value)
        same(fast(X), X * value + 1)
        weight.data.mul_(2)
        same(fast(X), X * value * 2 + 1)


def test_ids_and_texts_are_unique():
    texts = [text for text, _ in C.break_reasons.values()]
    assert len(set(texts)) == len(texts)
    assert all(remedy.endswith(".") for _, remedy in C.break_reasons.values())


# ---- what torch.compile leaves out of its graphs too


def test_record_function():
    from torch.profiler import record_function

    def f(x):
        with record_function("one"):
            x = x + 1
        with torch.autograd.profiler.record_function("two", "arguments") as range_:
            x = x * 2
        return x, isinstance(range_, record_function)

    check_whole(f, (X,))


def test_record_function_across_a_break():
    def f(x):
        with torch.profiler.record_function("one"):
            x = x + 1
            total = x.sum().item()
            x = x * 2
        return x, total

    fast = compiled(f)
    for _ in range(3):
        same(fast(X), f(X))
    assert fast.counts()["native"] == 0


def test_checks_that_hold():
    def f(x, size):
        torch._check(x.shape[0] == 4)
        torch._check_value(size > 2, lambda: f"{size} is too small")
        return x * size

    check_whole(f, (X, 3), (X, 4))
    fast = compiled(f)
    with pytest.raises(ValueError, match="1 is too small"):
        fast(X, 1)


def test_max_unpool_to_a_size():
    def f(x):
        y, indices = nn.functional.max_pool2d(x, 2, return_indices=True)
        return nn.functional.max_unpool2d(y, indices, 2, output_size=x.size())

    check_whole(f, (torch.randn(1, 1, 4, 4),))


def test_kernels_of_attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def flags():
        return torch._C._get_flash_sdp_enabled(), torch._C._get_math_sdp_enabled()

    def f(x, backends):
        with sdpa_kernel(backends):
            inside = flags()
            x = nn.functional.scaled_dot_product_attention(x, x, x)
        return x * 2, inside, flags()

    q = torch.randn(1, 2, 4, 8)
    check_whole(f, (q, SDPBackend.MATH), (q, [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]))
    check_whole(lambda x: f(x, SDPBackend.FLASH_ATTENTION), (q,))
    assert flags() == (True, True)


def test_kernels_of_attention_as_a_decorator():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def flags():
        return torch._C._get_flash_sdp_enabled(), torch._C._get_math_sdp_enabled()

    @sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION], set_priority=True)
    def attend(q):
        return nn.functional.scaled_dot_product_attention(q, q, q), flags()

    def made_inside(q):
        @sdpa_kernel(SDPBackend.MATH)
        def attend(q, again):
            return attend(q * 2, again - 1) if again else (q.sin(), flags())

        return attend(q, 2), flags()

    q = torch.randn(1, 2, 4, 8)
    check_whole(lambda q: (attend(q), flags()), (q,))
    check_whole(made_inside, (q,))
    assert flags() == (True, True)


def test_kernels_of_attention_across_a_break():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def f(x):
        with sdpa_kernel(SDPBackend.MATH):
            x = x + 1
            total = x.sum().item()
            inside = torch._C._get_flash_sdp_enabled()
            x = nn.functional.scaled_dot_product_attention(x, x, x)
            if total > 1e9:
                raise ValueError
        return x, total, inside, torch._C._get_flash_sdp_enabled()

    q = torch.randn(1, 2, 4, 8)
    fast = compiled(f)
    for _ in range(3):
        same(fast(q), f(q))
    assert fast.counts()["native"] == 0
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        same(fast(q), f(q))
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
    with pytest.raises(ValueError):
        fast(q + 1e10)
    assert torch._C._get_flash_sdp_enabled()


@pytest.mark.parametrize("transform", ["grad", "jacrev", "vjp"])
def test_the_first_gradient_of_a_process(transform):
    program = f"""
        import torch
        from braze._load import C

        def f(x):
            made = torch.func.{transform}
            return made(torch.sin, x)[1](x)[0] if made is torch.func.vjp else made(lambda v: (v**3).sum())(x)

        fast = C.CompiledFunction(f)
        with torch.no_grad():
            x = torch.randn(4)
            for _ in range(3):
                torch.testing.assert_close(fast(x), f(x))
        assert fast.report()["first_break"] is None, fast.report()["first_break"]
        assert fast.counts() == {{"captured": 1, "replayed": 2, "native": 0}}
    """
    fresh(textwrap.dedent(program))


def test_a_cond_that_runs_natively():
    """torch.cond compiles by itself there, with tracers of PyTorch's: their frames are not for braze."""

    def f(x):
        return torch.cond(x.sum() > 0, lambda a: a.nonzero().sum() + a, lambda a: a.clone(), (x + 1,))

    x = torch.arange(6.0).reshape(2, 3)
    wanted = f(x)
    fast = compiled(f)
    for _ in range(2):
        same(fast(x), wanted)
    assert fast.report()["first_break"]["id"] == "nonzero"
