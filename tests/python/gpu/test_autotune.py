"""mode="max-autotune": forms of kernels measured on the device."""

import subprocess
import sys

import pytest
import torch
from on_gpu import needs_gpu

import braze

pytestmark = needs_gpu


def standardised(x, weight):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight) * 2


def tunings(compiled):
    return [kernel for program in compiled.programs() for kernel in program.kernel_tuning()]


@pytest.fixture(autouse=True)
def nothing_known(tmp_path, monkeypatch):
    monkeypatch.setenv("BRAZE_CACHE_DIR", str(tmp_path))


FORMS = {
    "layer norm": (lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), (517, 3001)),
    "softmax": (lambda x: x.softmax(-1), (333, 1003)),
    "gelu": (lambda x: torch.nn.functional.gelu(x) * 0.5, (1021, 777)),
    "sum": (lambda x: x.square().sum(0), (5003, 129)),
    "all": (lambda x: (x * x).mean(), (1031, 1013)),
    "transposed": (lambda x: x.t().contiguous() + 1, (701, 903)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
@pytest.mark.parametrize("form", FORMS)
def test_results(form, mode, dtype):
    function, shape = FORMS[form]
    compiled = braze.compile(function, mode=mode)
    for k in range(5):
        x = torch.randn(shape, generator=torch.manual_seed(k)).to("cuda", dtype)
        exact = function(x.double())
        error, of_eager = ((y.double() - exact).abs().max() for y in (compiled(x), function(x)))
        assert error <= 2 * of_eager + 4 * torch.finfo(dtype).eps * exact.abs().max()
    for kernel in tunings(compiled):
        assert not kernel["failed"] and kernel["chosen"], kernel
        if kernel["measured"]:
            assert len(kernel["measured"]) > 1 and min(kernel["measured"].values()) > 0
            assert kernel["chosen"] in kernel["measured"]


def test_what_is_measured_is_kept():
    x, weight = torch.randn(4100, 2048, device="cuda"), torch.randn(2048, device="cuda")
    first = braze.compile(standardised, mode="max-autotune-no-cudagraphs", dynamic=False)
    first(x, weight)
    (kernel,) = tunings(first)
    assert kernel["measured"] and not kernel["was_known"]

    def again(x, weight):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight) * 3

    # Nearly the same shape, and another number: the same operators.
    like = braze.compile(again, mode="max-autotune-no-cudagraphs", dynamic=False)
    like(x[:4096], weight)
    (other,) = tunings(like)
    assert other["was_known"] and not other["measured"] and other["chosen"] == kernel["chosen"]
    torch.testing.assert_close(like(x[:4096], weight), again(x[:4096], weight))
    assert other["kernel"] in like.programs()[0].code("loops")


SCRIPT = """
import torch, braze
compiled = braze.compile(lambda x: x.softmax(-1) + 1, mode="max-autotune-no-cudagraphs")
compiled(torch.randn(2048, 1024, device="cuda"))
print([(kernel["was_known"], len(kernel["measured"])) for kernel in compiled.programs()[0].kernel_tuning()])
"""


def test_other_processes_find_it():
    found = [
        subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True).stdout.strip()
        for _ in range(2)
    ]
    assert found[0].startswith("[(False, ") and found[1] == "[(True, 0)]", found


def test_what_is_written_is_written_once():
    def moved(x, y):
        x.mul_(1.5).add_(y)
        return x.sum(1)

    compiled = braze.compile(moved, mode="max-autotune-no-cudagraphs")
    x, y = torch.randn(512, 4096, device="cuda"), torch.randn(512, 4096, device="cuda")
    mine = x.clone()
    for _ in range(3):
        torch.testing.assert_close(compiled(mine, y), moved(x, y), rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(mine, x)


def test_sizes_that_vary():
    compiled = braze.compile(standardised, mode="max-autotune-no-cudagraphs", dynamic=True)
    for n in (64, 1000, 1001, 4096, 7):
        x, weight = torch.randn(n, 768, device="cuda"), torch.randn(768, device="cuda")
        for _ in range(2):
            torch.testing.assert_close(compiled(x, weight), standardised(x, weight))
    assert compiled.counts()["captured"] == 1, compiled.counts()
    assert any(kernel["measured"] for kernel in tunings(compiled))


def test_training():
    def loss(x, weight):
        return torch.nn.functional.gelu(standardised(x, weight)).square().mean()

    compiled = braze.compile(loss, mode="max-autotune")
    for k in range(5):
        x = torch.randn(256, 1024, generator=torch.manual_seed(k)).cuda().requires_grad_()
        weight = torch.ones(1024, device="cuda", requires_grad=True)
        wanted = torch.autograd.grad(loss(x, weight), (x, weight))
        torch.testing.assert_close(torch.autograd.grad(compiled(x, weight), (x, weight)), wanted)


def test_a_first_call_that_somebody_records():
    compiled = braze.compile(lambda x: x.softmax(-1), mode="max-autotune-no-cudagraphs")
    x = torch.randn(300, 1500, device="cuda")
    torch.softmax(x, -1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = compiled(x)
    graph.replay()
    torch.testing.assert_close(y, x.softmax(-1))
    assert all(not kernel["measured"] for kernel in tunings(compiled))
    compiled(x)
    assert all(kernel["measured"] for kernel in tunings(compiled))
