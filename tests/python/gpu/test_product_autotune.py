"""mode="max-autotune": algorithms of cuBLASLt for products of matrices, measured on the device."""

import subprocess
import sys

import pytest
import torch
from on_gpu import needs_gpu

import braze

pytestmark = needs_gpu

MODE = "max-autotune-no-cudagraphs"


def products(compiled):
    return [
        facts for p in compiled.programs() for facts in p.kernel_tuning() if facts["kernel"].startswith("aten::")
    ]


def numbers(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.manual_seed(seed)).to("cuda", dtype)


@pytest.fixture(autouse=True)
def nothing_known(tmp_path, monkeypatch):
    monkeypatch.setenv("BRAZE_CACHE_DIR", str(tmp_path))


def assert_as_near(got, wanted, exact):
    error, of_eager = ((y.double() - exact).abs().max() for y in (got, wanted))
    ulps = 64 if got.dtype == torch.float64 else 4  # where eager itself is what is compared with
    assert error <= 2 * of_eager + ulps * torch.finfo(got.dtype).eps * exact.abs().max()
    assert got.stride() == wanted.stride() and got.dtype == wanted.dtype


#: Products by name: the function and the shapes of its arguments.
FORMS = {
    "rows": (lambda a, b: a @ b, (257, 384), (384, 512)),
    "right transposed": (lambda a, b: a @ b.t(), (96, 768), (3072, 768)),
    "left transposed": (lambda a, b: a.t() @ b, (512, 320), (512, 640)),
    "both transposed": (lambda a, b: a.t() @ b.t(), (512, 320), (640, 512)),
    "a row added": (lambda a, b, c: torch.addmm(c, a, b), (64, 512), (512, 2048), (2048,)),
    "linear": (torch.nn.functional.linear, (64, 512), (2048, 512), (2048,)),
    "linear of three dimensions": (torch.nn.functional.linear, (4, 33, 512), (256, 512), (256,)),
    "batches": (torch.bmm, (12, 130, 64), (12, 64, 130)),
    "batches transposed": (lambda a, b: a @ b.transpose(1, 2), (12, 130, 64), (12, 130, 64)),
    "one row": (lambda a, b: a @ b, (1, 1024), (1024, 4096)),
    "one column": (lambda a, b: a @ b, (1024, 512), (512, 1)),
    "a part of columns": (lambda a, b: a[:, 64:192] @ b, (200, 256), (128, 512)),
    "odd places": (lambda a, b: a[:, 1:98] @ b, (77, 99), (97, 55)),
    "a matrix added": (lambda a, b, c: torch.addmm(c, a, b), (64, 512), (512, 128), (64, 128)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_results(form, dtype):
    function, *shapes = FORMS[form]
    compiled = braze.compile(function, mode=MODE, dynamic=False)
    results = []
    for k in (0, 1, 2, 0):
        operands = [numbers(*shape, dtype=dtype, seed=7 * k + j) for j, shape in enumerate(shapes)]
        results.append(compiled(*operands))
        assert_as_near(results[-1], function(*operands), function(*(x.double() for x in operands)))
    assert torch.equal(compiled(*operands), results[-1])
    assert compiled.counts()["replayed"] == 4 and not compiled.counts()["native"], compiled.counts()


def test_the_fastest_is_taken():
    compiled = braze.compile(lambda a, b: a @ b, mode=MODE, dynamic=False)
    a, b = numbers(1024, 768), numbers(768, 3072)
    compiled(a, b)
    (facts,) = products(compiled)
    assert facts["kernel"] == "aten::mm 1024x768x3072 f32" and not facts["failed"] and not facts["was_known"]
    times = facts["measured"]
    assert len(times) > 2 and "aten" in times and facts["chosen"] in times
    assert facts["chosen"] == "aten" or times[facts["chosen"]] == min(times.values()) < times["aten"]


SCRIPT = f"""
import torch, braze
compiled = braze.compile(torch.mm, mode="{MODE}", dynamic=False)
a, b = torch.randn(1000, 768, device="cuda"), torch.randn(768, 3000, device="cuda")
torch.testing.assert_close(compiled(a, b), a @ b, rtol=1e-3, atol=1e-3)
print([(facts["was_known"], len(facts["measured"]) > 1) for facts in compiled.programs()[0].kernel_tuning()])
"""


def test_other_processes_and_like_sizes_find_it():
    found = [
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()
        for script in (SCRIPT, SCRIPT, SCRIPT.replace("(1000,", "(1008,"))
    ]
    assert found == ["[(False, True)]", "[(True, False)]", "[(True, False)]"], found


def test_switches_of_precision_are_obeyed(monkeypatch):
    a, b = numbers(512, 1024), numbers(1024, 512)
    exact = a.double() @ b.double()
    errors = {}
    for allowed in (False, True, False):
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", allowed)
        compiled = braze.compile(torch.mm, mode=MODE, dynamic=False)
        compiled(a, b)
        errors[allowed] = (compiled(a, b) - exact).abs().max()
    assert errors[False] < 1e-3 < errors[True]
    # A program that was made under one setting is not used with its algorithm under the other.
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    compiled = braze.compile(torch.mm, mode=MODE, dynamic=False)
    compiled(a, b)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    assert (compiled(a, b) - exact).abs().max() < 1e-3


def test_deterministic_algorithms_are_atens():
    a, b = numbers(256, 4096), numbers(4096, 256)
    compiled = braze.compile(torch.mm, mode=MODE, dynamic=False)
    compiled(a, b)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert torch.equal(compiled(a, b), torch.mm(a, b))
    finally:
        torch.use_deterministic_algorithms(False)


def test_with_cuda_graphs_and_gradients():
    def loss(x, weight, bias):
        return torch.relu(torch.nn.functional.linear(x, weight, bias)).square().mean()

    compiled = braze.compile(loss, mode="max-autotune")
    for k in range(5):
        x, weight, bias = (
            numbers(*s, seed=9 * k + len(s)).requires_grad_() for s in ((128, 512), (256, 512), (256,))
        )
        wanted = torch.autograd.grad(loss(x, weight, bias), (x, weight, bias))
        torch.testing.assert_close(torch.autograd.grad(compiled(x, weight, bias), (x, weight, bias)), wanted)
