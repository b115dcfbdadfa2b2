"""Gradients through complex numbers: what the backward reads of them is saved as the calls that made it gave it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import braze


def spectral(x: Tensor, w: Tensor) -> Tensor:
    return torch.fft.irfft(torch.fft.rfft(x) * w, n=x.shape[-1]).sin()


def two_layers(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(2):
        x = torch.nn.functional.gelu(spectral(x, w)) + x
    return x


def magnitude(x: Tensor, w: Tensor) -> Tensor:
    return (x * w).abs().sum()


def parts(x: Tensor, w: Tensor) -> Tensor:
    return torch.view_as_real(x * w).sum(-1).sin()


def product(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w.mT).abs()


def quotient(x: Tensor, w: Tensor) -> Tensor:
    return (x / (w + 2)).angle()


def waves(x: Tensor, w: Tensor) -> Tensor:
    return torch.polar(x, w).real.cos()


def spectrogram(x: Tensor, w: Tensor) -> Tensor:
    return torch.stft(x, 8, return_complex=True, window=w[0, :8]).abs()


def transposed(x: Tensor, w: Tensor) -> Tensor:
    y = (x * w).t()
    return (y * y.conj()).real.sum(0)


def written(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    y[..., 0] = 0
    return (y * y).abs()


def complexes(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.complex64)


CASES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[], list[Tensor]]]] = {
    "a spectral layer": (spectral, lambda: [torch.randn(4, 16), complexes(4, 9)]),
    "two spectral layers": (two_layers, lambda: [torch.randn(4, 16), complexes(4, 9)]),
    "magnitude": (magnitude, lambda: [complexes(4, 8), complexes(4, 8)]),
    "parts": (parts, lambda: [complexes(4, 8), complexes(4, 8)]),
    "product": (product, lambda: [complexes(4, 8), complexes(3, 8)]),
    "quotient": (quotient, lambda: [complexes(4, 8), complexes(4, 8)]),
    "waves": (waves, lambda: [torch.randn(4, 8), torch.randn(4, 8)]),
    "spectrogram": (spectrogram, lambda: [torch.randn(2, 64), torch.rand(4, 8)]),
    "transposed": (transposed, lambda: [complexes(4, 8), complexes(4, 8)]),
    "written": (written, lambda: [complexes(4, 8), complexes(4, 8)]),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, dynamic: bool | None) -> None:
    function, make = CASES[name]
    compiled = braze.compile(function, dynamic=dynamic)
    torch.manual_seed(0)
    for call in range(3):
        values = make()
        eager, ours = ([value.clone().requires_grad_() for value in values] for _ in range(2))
        expected, result = function(*eager), compiled(*ours)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
        tangent = torch.randn_like(expected)
        for _ in range(2):
            expected.backward(tangent, retain_graph=True)
            result.backward(tangent, retain_graph=call == 0)
            if call:
                break
        for leaf, like in zip(ours, eager, strict=True):
            torch.testing.assert_close(leaf.grad, like.grad, rtol=1e-4, atol=1e-4)
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("name", ["a spectral layer", "product", "magnitude"])
def test_second_derivatives(name: str) -> None:
    function, make = CASES[name]
    compiled = braze.compile(function)
    torch.manual_seed(0)
    values = make()
    eager, ours = ([value.clone().requires_grad_() for value in values] for _ in range(2))
    for called, leaves in ((function, eager), (compiled, ours)):
        (first,) = torch.autograd.grad(called(*leaves).sum(), leaves[:1], create_graph=True)
        first.abs().square().sum().backward()
    for leaf, like in zip(ours, eager, strict=True):
        torch.testing.assert_close(leaf.grad, like.grad, rtol=1e-3, atol=1e-3)


def real_twin(x: Tensor, w: Tensor) -> Tensor:
    return torch.view_as_complex((x * w).unflatten(-1, (-1, 2)))


#: Results that are complex, or parts of what is: of leaves that are complex, or of two real ones.
RESULTS: dict[str, tuple[bool, Callable[[Tensor, Tensor], object]]] = {
    "real": (True, lambda x, w: (x * w).real),
    "imaginary": (True, lambda x, w: (x * w).imag),
    "real of exponentials": (True, lambda x, w: (x.exp() * w.conj()).real),
    "whole": (True, lambda x, w: x * w),
    "whole and magnitude": (True, lambda x, w: (x * w, (x * w).abs())),
    "whole and its real part": (True, lambda x, w: (lambda y: (y, y.real))(x * w)),
    "both parts": (True, lambda x, w: (lambda y: (y.real, y.imag))(x * w)),
    "conjugate": (True, lambda x, w: (x * w).conj()),
    "conjugate, transposed": (True, lambda x, w: (x * w).mH),
    "negative": (True, lambda x, w: (x * w).conj().imag),
    "as two numbers": (True, lambda x, w: torch.view_as_real(x * w)),
    "of two numbers": (False, real_twin),
    "transformed": (False, lambda x, w: torch.fft.fft(x * w)),
    "real part of an input": (True, lambda x, w: (x.real, x * w)),
    "conjugate of an input": (True, lambda x, w: (x.conj(), x * w)),
    "some of it": (True, lambda x, w: (x * w)[1:, ::2].real),
    "made of two": (False, lambda x, w: torch.complex(x, w) * 2),
    "resolved": (True, lambda x, w: (x * w).conj().resolve_conj()),
    "two that share nothing": (True, lambda x, w: (x * w, (x + w).abs())),
}


def results_of(made: object) -> list[Tensor]:
    return list(made) if isinstance(made, tuple) else [made]


def pair_of_leaves(is_complex: bool) -> tuple[list[Tensor], list[Tensor]]:
    values = [complexes(4, 8) if is_complex else torch.randn(4, 8) for _ in range(2)]
    eager, ours = ([value.clone().requires_grad_() for value in values] for _ in range(2))
    return eager, ours


def same(ours: object, eager: object) -> None:
    torch.testing.assert_close(ours, eager, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    is_complex, function = RESULTS[name]
    compiled = braze.compile(function)
    torch.manual_seed(0)
    for wanted in (slice(None), slice(1), slice(-1, None)):
        eager, ours = pair_of_leaves(is_complex)
        expected, made = results_of(function(*eager)), results_of(compiled(*ours))
        for result, like in zip(made, expected, strict=True):
            same(result, like)
            assert (result.stride(), result.is_conj(), result.is_neg()) == (
                like.stride(),
                like.is_conj(),
                like.is_neg(),
            )
            assert (result._base is None) == (like._base is None)
            if like._base is not None:
                same(result._base, like._base)
        expected, made = expected[wanted], made[wanted]
        tangents = [torch.randn_like(like) for like in expected]
        for create_graph in (False, True):
            firsts = [
                torch.autograd.grad(
                    results, leaves, tangents, allow_unused=True, retain_graph=True, create_graph=create_graph
                )
                for results, leaves in ((expected, eager), (made, ours))
            ]
            same(firsts[1], firsts[0])
        seconds = []
        for first, leaves in zip(firsts, (eager, ours), strict=True):
            loss = sum(
                gradient.abs().sum() for gradient in first if gradient is not None and gradient.requires_grad
            )
            if isinstance(loss, Tensor):
                seconds.append(torch.autograd.grad(loss, leaves, allow_unused=True))
        if len(seconds) == 2:
            same(seconds[1], seconds[0])
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("name", [name for name in RESULTS if "input" not in name and name != "both parts"])
def test_results_that_are_written(name: str) -> None:
    is_complex, function = RESULTS[name]
    compiled = braze.compile(function)
    torch.manual_seed(0)
    for _ in range(2):
        eager, ours = pair_of_leaves(is_complex)
        for called, leaves in ((function, eager), (compiled, ours)):
            result = results_of(called(*leaves))[0]
            result.mul_(3)
            result.abs().sum().backward()
        same([leaf.grad for leaf in ours], [leaf.grad for leaf in eager])


def test_a_conjugate_is_a_view_of_what_it_was_made_from() -> None:
    compiled = braze.compile(lambda x: (x * 2).conj())
    x = complexes(3)
    result = compiled(x)
    same(result, (x * 2).conj())
    same(result._base, x * 2)


class _Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward((x.abs() * 100).to(torch.int32).to(torch.uint16))
        return x * 2

    @staticmethod
    def backward(ctx, tangent: Tensor) -> Tensor:
        (counts,) = ctx.saved_tensors
        return tangent * counts.to(torch.float32)


def test_a_type_that_the_graph_has_no_name_for() -> None:
    def function(x: Tensor) -> Tensor:
        return _Counted.apply(x.sin()).cos()

    compiled = braze.compile(function)
    torch.manual_seed(0)
    for _ in range(3):
        eager = torch.randn(4, 8, requires_grad=True)
        ours = eager.detach().clone().requires_grad_()
        function(eager).sum().backward()
        compiled(ours).sum().backward()
        torch.testing.assert_close(ours.grad, eager.grad)
    assert compiled.counts()["native"] == 0, compiled.reasons()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("shares", [False, True], ids=["own memory", "memory of another"])
def test_an_imaginary_factor_beside_what_is_saved(shares: bool, dynamic: bool | None) -> None:
    """The formula of its gradient makes a number, which eager's node saves and the forward does not have."""

    def function(x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a * b, x * 2j

    compiled = braze.compile(function, dynamic=dynamic)
    for size in (3, 3, 4):
        gradients = []
        for call in (function, compiled):
            a, b = (torch.linspace(-1, k, size, dtype=torch.float64).requires_grad_() for k in (1, 2))
            x = b.detach().requires_grad_() if shares else b * 1
            sum(result.abs().sum() for result in call(x, a, b)).backward()
            gradients.append((a.grad, b.grad))
        torch.testing.assert_close(gradients[1], gradients[0])
    assert compiled.counts()["native"] == 0, compiled.reasons()
