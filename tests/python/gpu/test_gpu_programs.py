"""What surrounds kernels on a CUDA device: writes, views, several devices, streams, modes, errors, models."""

import contextlib
import copy
import threading

import pytest
import torch
from on_gpu import assert_as_eager, check, needs_gpu, on_device
from processes import fresh
from torch import nn
from torch.nn import functional as F

import braze
from braze._load import C

pytestmark = needs_gpu


def counts(fast):
    return fast.counts()


# ---- writes and views


def test_inputs_are_written():
    def f(x, y):
        x.add_(1).mul_(2)
        y[:, 1:3] = x[:, :2]
        return x.relu() + y

    check(f, torch.randn(9, 6), torch.randn(9, 6))


def test_results_alias_as_eagers():
    def f(x):
        y = x + 1
        return x[1:], x.t(), y, y[:, 0], y.view(-1), x

    x = torch.randn(4, 5, device="cuda")
    fast = C.CompiledFunction(f)
    with torch.no_grad():
        for _ in range(2):
            got = fast(x)
            assert_as_eager(got, f(x))
            assert got[5] is x and got[0].is_set_to(x[1:]) and got[3].is_set_to(got[2][:, 0])
            got[2].zero_()
            assert not got[4].any()
    assert counts(fast)["native"] == 0


def test_parameters_are_read_at_every_call():
    model = nn.Linear(8, 8).cuda()
    fast = C.CompiledFunction(lambda x: F.relu(model(x)))
    x = torch.randn(3, 8, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), F.relu(model(x)))
            model.weight.add_(0.5)
    assert counts(fast) == {"captured": 1, "replayed": 2, "native": 0}


# ---- devices


def test_a_number_of_the_cpu_is_an_operand():
    def f(x, scale):
        return x * scale + 1, torch.where(x > 0, x, scale)

    x = torch.randn(50, device="cuda")
    fast = C.CompiledFunction(f)
    with torch.no_grad():
        for value in (2.0, 3.0, -1.0):
            scale = torch.tensor(value)
            assert_as_eager(fast(x, scale), f(x, scale))
    assert counts(fast) == {"captured": 1, "replayed": 2, "native": 0}


@pytest.fixture
def on_the_gpu():
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)


def test_factories_on_the_default_device(on_the_gpu):
    class Places(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(16, 8)

        def forward(self, x):
            places = torch.arange(x.shape[1])
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            beside = torch.full((3,), 2.5, device="cpu"), torch.tensor([1, 2]), torch.zeros(2, device=None)
            noise = F.dropout(x, 0.5, True) + torch.rand(x.shape[1], 8) * torch.eye(8).sum()
            return noise + self.table(places), torch.where(mask, 0.0, float("-inf")).softmax(-1), beside

    model = Places()
    x = torch.randn(2, 5, 8)
    fast = C.CompiledFunction(model)
    for _ in range(3):
        torch.manual_seed(3)
        mine = fast(x)
        torch.manual_seed(3)
        assert_as_eager(mine, model(x))
    assert counts(fast) == {"captured": 1, "replayed": 2, "native": 0}


def test_pytorchs_functions_run_without_the_default_device(on_the_gpu):
    """Those that are Python code: F.one of them makes its tensor on the CPU in eager, and so it does here."""

    def made_within(x):
        if torch.overrides.has_torch_function_unary(x):
            return torch.overrides.handle_torch_function(made_within, (x,), x)
        return x + 1, torch.zeros(2)

    x = torch.randn(3)

    def f(x):
        return F.gelu(x), torch.zeros(2), made_within(x), torch.ones(3)

    fast = braze.compile(f)
    for _ in range(3):
        for mine, theirs in zip(fast(x), f(x), strict=True):
            assert_as_eager(mine, theirs)


def test_programs_are_for_one_default_device():
    def f(x):
        return x.sum() + 1, torch.arange(3) * 2

    fast = braze.compile(f)
    x = torch.randn(4)
    for device in ("cuda", "cpu", None, "cuda:0", "cuda"):
        with torch.device(device) if device else contextlib.nullcontext():
            for _ in range(2):
                assert_as_eager(fast(x), f(x))
    assert counts(fast) == {"captured": 3, "replayed": 7, "native": 0}


def test_from_one_device_to_the_other_and_back():
    def f(x, y):
        here = (x * 2).exp()
        there = here.to("cuda") + y
        back = there.sum(-1).cpu()
        return back * 3 + here.sum(-1), there.relu(), y.cpu() + 1

    x, y = torch.randn(20, 30), torch.randn(20, 30, device="cuda")
    fast = C.CompiledFunction(f)
    with torch.no_grad():
        for _ in range(3):
            assert_as_eager(fast(x, y), f(x, y))
            x += 0.1
    assert counts(fast) == {"captured": 1, "replayed": 2, "native": 0}


def test_indices_of_the_cpu_select_on_the_device():
    def f(x, at):
        return x[at] + 1

    x, at = torch.randn(20, 3, device="cuda"), torch.tensor([1, 5, 2])
    fast = C.CompiledFunction(f)
    with torch.no_grad():
        for _ in range(2):
            assert_as_eager(fast(x, at), f(x, at))
    assert counts(fast)["native"] == 0


def test_copies_between_devices_into_what_exists():
    def f(x, y):
        y.copy_(x * 2)
        return y + 1

    for x, y in ((torch.randn(9), torch.zeros(9, device="cuda")), (torch.randn(9, device="cuda"), torch.zeros(9))):
        fast, other = C.CompiledFunction(f), y.clone()
        with torch.no_grad():
            for _ in range(2):
                assert_as_eager(fast(x, y), f(x, other))
                assert torch.equal(y, other)
        assert counts(fast)["native"] == 0


def test_what_devices_do_not_allow_raises_as_in_eager():
    def f(x, y):
        return x.exp() + y

    fast = C.CompiledFunction(f)
    with torch.no_grad(), pytest.raises(RuntimeError, match="same device"):
        fast(torch.randn(3, device="cuda"), torch.randn(3))


def test_programs_are_for_one_device():
    f = C.CompiledFunction(lambda x: x * 2 + 1)
    x = torch.randn(5)
    with torch.no_grad():
        for one in (x, x.cuda(), x, x.cuda()):
            torch.testing.assert_close(f(one), one * 2 + 1)
    assert counts(f) == {"captured": 2, "replayed": 2, "native": 0}


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one CUDA device")
def test_two_gpus():
    def f(x, y):
        return (x + 1).to("cuda:1") * y.relu(), x.exp()

    x, y = torch.randn(64, device="cuda:0"), torch.randn(64, device="cuda:1")
    fast = C.CompiledFunction(f)
    with torch.no_grad():
        for current in (0, 1, 0):
            with torch.cuda.device(current):
                assert_as_eager(fast(x, y), f(x, y))


# ---- streams and threads


def test_kernels_run_on_the_current_stream():
    def f(x):
        return F.softmax(x @ x.t(), -1) @ x + x.sin()

    fast = C.CompiledFunction(f)
    streams = [torch.cuda.Stream() for _ in range(3)]
    inputs = [torch.randn(256, 256, device="cuda") for _ in streams]
    torch.cuda.synchronize()
    results = []
    with torch.no_grad():
        for _ in range(20):
            for stream, x in zip(streams, inputs, strict=True):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(100_000)
                    results.append((x, fast(x)))
        torch.cuda.synchronize()
        for x, got in results:
            torch.testing.assert_close(got, f(x), rtol=1e-3, atol=1e-3)
    assert counts(fast)["captured"] == 1


def test_threads_have_streams_of_their_own():
    fast = C.CompiledFunction(lambda x: (x * 2).softmax(-1) + 1)
    wrong = []

    def work(seed):
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            x = torch.randn(100, 100, device="cuda")
            for _ in range(50):
                got = fast(x)
                if not torch.allclose(got, (x * 2).softmax(-1) + 1, atol=1e-5):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_goes_back_to_the_allocator():
    fast = C.CompiledFunction(lambda x: ((x + 1).t().contiguous() @ x).softmax(-1).sum())
    x = torch.randn(512, 512, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            fast(x)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        for _ in range(20):
            fast(x)
        assert torch.cuda.memory_allocated() == before


# ---- modes


def test_autocast():
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).cuda().eval()
    fast = C.CompiledFunction(model.forward)
    x = torch.randn(16, 32, device="cuda")
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for _ in range(3):
            assert_as_eager(fast(x), model(x))
    assert counts(fast) == {"captured": 1, "replayed": 2, "native": 0}


def test_tf32_is_what_the_flag_says_now():
    fast = C.CompiledFunction(lambda x: x @ x + 0)
    x = torch.randn(512, 512, device="cuda")
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        with torch.no_grad():
            for allowed in (False, True, False):
                torch.backends.cuda.matmul.allow_tf32 = allowed
                torch.testing.assert_close(fast(x), x @ x, rtol=0, atol=0)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune-no-cudagraphs"])
def test_modes(mode):
    fast = braze.compile(lambda x: x.softmax(-1) * 2, mode=mode)
    x = torch.randn(64, 64, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), x.softmax(-1) * 2)


def test_gradients_are_eagers():
    fast = braze.compile(lambda x: (x * 2).sin().sum())
    x = torch.randn(9, device="cuda", requires_grad=True)
    for _ in range(3):
        x.grad = None
        fast(x).backward()
        torch.testing.assert_close(x.grad, 2 * (x * 2).cos())


# ---- trouble


LATE = """
import torch, braze
from braze._load import C
fast = C.CompiledFunction(lambda table, at: torch.nn.functional.embedding(at, table) + 1)
table = torch.randn(10, 4, device="cuda")
good, bad = torch.tensor([1, 2], device="cuda"), torch.tensor([1, 12], device="cuda")
with torch.no_grad():
    fast(table, good)
    fast(table, bad)
    torch.cuda.synchronize()
    try:
        fast(table, good)
        print("nothing was raised")
    except RuntimeError as error:
        print("raised:", "index out of range" in str(error), "CUDA" in str(error))
    print("goes on:", torch.equal(fast(table, good), table[good] + 1))
print(fast.counts())
"""


def test_an_index_out_of_range_is_told_by_a_later_call():
    said = fresh(LATE)
    assert "raised: True True" in said and "goes on: True" in said, said


def test_without_visible_devices_the_cpu_works():
    said = fresh(
        "import torch, braze\n"
        "f = braze.compile(lambda x: x * 2 + 1)\n"
        "with torch.no_grad():\n"
        "    print(torch.cuda.is_available(), f(torch.ones(3)), f(torch.ones(3)))\n",
        CUDA_VISIBLE_DEVICES="",
    )
    assert said.startswith("False tensor([3., 3., 3.]) tensor([3., 3., 3.])"), said


FORK = """
import os, torch, braze
f = braze.compile(lambda x: x * 2 + 1)
with torch.no_grad():
    print(f(torch.ones(2, device="cuda")).tolist(), flush=True)
    if (child := os.fork()) == 0:
        print("child, CPU:", f(torch.ones(2)).tolist(), flush=True)
        try:
            f(torch.ones(2, device="cuda"))
        except RuntimeError as error:
            print("child, CUDA:", "forked subprocess" in str(error), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(f(torch.ones(2, device="cuda")).tolist(), flush=True)
"""


def test_after_a_fork_the_child_has_the_cpu():
    said = fresh(FORK).splitlines()
    assert said == ["[3.0, 3.0]", "child, CPU: [3.0, 3.0]", "child, CUDA: True", "[3.0, 3.0]"], said


# ---- models


class Scorers(nn.Module):
    """Relevance of features to a query: entropy, edges, attention."""

    def forward(self, features, query):
        p = F.softmax(features, -1)
        entropy = -(p * (p + 1e-8).log()).sum(-1)
        kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], device=features.device)[None, None]
        image = features.mean(-1).view(-1, 1, 14, 14)
        edges = F.conv2d(image, kernel, padding=1).pow(2) + F.conv2d(image, kernel.transpose(2, 3), padding=1).pow(
            2
        )
        scale = torch.sqrt(torch.tensor(features.shape[-1], dtype=torch.float32, device=features.device))
        scores = F.softmax((query @ features.transpose(1, 2) / scale).squeeze(1), -1)
        return entropy, (edges + 1e-8).sqrt().flatten(1), scores


def test_scorers():
    model = Scorers()
    check(model.forward, torch.randn(4, 196, 64), torch.randn(4, 1, 64), reference=False)


def test_a_residual_net():
    model = (
        nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 8, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        )
        .cuda()
        .eval()
    )
    fast = C.CompiledFunction(model.forward)
    x = torch.randn(2, 3, 32, 32, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), model(x), rtol=1e-3, atol=1e-4)
    assert counts(fast) == {"captured": 1, "replayed": 2, "native": 0}


def transformer(kind):
    transformers = pytest.importorskip("transformers")
    if kind == "bert":
        config = transformers.BertConfig(
            hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=99
        )
        return transformers.BertModel(config)
    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=99, n_positions=64)
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_transformers(kind, dtype):
    model = transformer(kind).to(dtype).cuda().eval()
    exact = copy.deepcopy(model).cpu().double()
    fast = C.CompiledFunction(lambda ids: model(ids, use_cache=False)[0])
    for length in (16, 16, 16):
        ids = torch.randint(0, 99, (2, length), device="cuda")
        with torch.no_grad():
            eager = model(ids, use_cache=False)[0]  # It imports what it needs on its first call.
            assert_as_eager(fast(ids), eager, exact(ids.cpu(), use_cache=False)[0])
    assert counts(fast) == {"captured": 1, "replayed": 2, "native": 0}


def test_everything_on_the_device_is_on_device():
    assert on_device(torch.ones(2)).is_cuda


def test_numbers_computed_on_the_cpu_are_numbers_on_the_gpu():
    def scaled(x):
        return x / torch.sqrt(torch.tensor(float(x.shape[-1]))) + torch.tensor(3).square()

    x = torch.randn(4, 64, device="cuda")
    fast = braze.compile(scaled)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), scaled(x))
    (program,) = fast.programs()
    assert [step.kind for step in program.steps] == ["kernel"]
