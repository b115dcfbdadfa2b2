"""Traced programs whose tensors share memory in ways that the graph has no words for: against eager."""

import pytest
import torch
from compare import check

import braze


def complexes(*sizes):
    return torch.complex(torch.randn(sizes), torch.randn(sizes))


def reached_by(layout):
    """The same elements, laid out otherwise."""
    x = complexes(4, 6)
    return {
        "row-major": lambda: x,
        "transposed": lambda: x.t().contiguous().t(),
        "with gaps": lambda: complexes(4, 12)[:, ::2],
        "at an offset": lambda: complexes(6, 6)[2:],
    }[layout]()


LAYOUTS = ["row-major", "transposed", "with gaps", "at an offset"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_of_complex_inputs_are_written(layout):
    def f(z):
        z[0] = 0
        z.real[1] = 2
        z.imag[:, 1] += 3
        z.conj()[2].mul_(1j)
        torch.view_as_real(z)[..., 0].neg_()
        return z.conj(), z.t().imag, z.diagonal(), z.reshape(-1)

    check(f, reached_by(layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_of_complex_inputs_are_read(layout):
    check(lambda z: (z.abs(), z.t().real * 2, z.mH @ z, z[1:, ::2].abs().sum(), z.conj().imag), reached_by(layout))


def test_views_as_other_types_are_written():
    def f(x):
        x.view(torch.int32)[0] += 1
        x.view(torch.uint8)[1, 3] = 0
        torch._neg_view(x)[2].add_(1)
        return x * 2, x.view(torch.int16)[:, 1::2]

    check(f, torch.randn(4, 6))
    check(f, torch.randn(6, 6)[1:5])


def test_results_share_memory_as_in_eager():
    x = torch.randn(4, 6)
    as_complex = braze.trace(lambda x: torch.view_as_complex(x.unflatten(1, (3, 2))), (x,))(x)
    assert as_complex.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    whole, part = braze.trace(lambda z: (w := z * 2, w.conj()[1].imag), (complexes(3, 2),))(complexes(3, 2))
    assert part.is_neg()
    assert part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
    whole.zero_()
    assert part.eq(0).all()


def test_a_program_of_larger_elements_refuses_an_odd_place():
    program = braze.trace(lambda x: x.view(torch.int64) + 1, (torch.randn(4),))
    assert torch.equal(program(torch.randn(6)[2:]), program(torch.randn(6)[2:])) is False
    with pytest.raises(braze.Error, match="another place"):
        program(torch.randn(5)[1:])


def test_a_program_that_counts_from_the_storage_refuses_another_place():
    program = braze.trace(lambda x: x.as_strided((2,), (1,), 3) + 1, (torch.randn(6)[2:],))
    x = torch.arange(6.0)
    assert program(x[2:]).tolist() == [4, 5]
    with pytest.raises(braze.Error, match="another place"):
        program(x[1:5])
    moved = braze.trace(lambda x: x.as_strided((2,), (2,)) + 1, (torch.randn(6)[2:],))
    assert moved(x[1:5]).tolist() == [2, 4]


def test_memory_that_two_storages_share_is_one_memory():
    program = braze.trace(lambda x, y: (x.add_(1), y * 2)[1], (torch.zeros(4), torch.zeros(4)))
    array = torch.zeros(4).numpy()
    with pytest.raises(braze.Error, match="share"):
        program(torch.from_numpy(array), torch.from_numpy(array))
    shared = braze.trace(
        lambda x, y: (x.add_(1), y * 2)[1], (torch.from_numpy(array), torch.from_numpy(array)), check=False
    )
    assert shared(torch.from_numpy(array), torch.from_numpy(array)).tolist() == [2, 2, 2, 2]
    with pytest.raises(braze.Error, match="share"):
        shared(torch.zeros(4), torch.zeros(4))


@pytest.mark.parametrize("power", [1, 2, None])
def test_spectrograms(power):
    window = torch.hann_window(16)

    def f(x):
        z = torch.stft(x.reshape(-1, x.shape[-1]), 16, 4, window=window, return_complex=True)
        z = z.reshape(x.shape[:-1] + z.shape[-2:])
        return z if power is None else z.abs().pow(power)

    check(f, torch.randn(2, 3, 64))


def test_griffin_lim():
    window = torch.hann_window(16)

    def f(magnitude):
        angles = torch.ones_like(magnitude, dtype=torch.complex64)
        previous = torch.tensor(0.0)
        for _ in range(3):
            signal = torch.istft(magnitude * angles, 16, 4, window=window, length=64)
            rebuilt = torch.stft(signal, 16, 4, window=window, return_complex=True)
            angles = rebuilt - previous * 0.5 if previous.ndim else rebuilt
            angles = angles.div(angles.abs().add(1e-16))
            previous = rebuilt
        return torch.istft(magnitude * angles, 16, 4, window=window, length=64)

    check(f, torch.rand(2, 9, 17) + 0.5)


def test_constants_of_complex_numbers_are_given_away():
    check(lambda x: (torch.tensor([1j, 2]), torch.tensor(3j), x + 1), torch.randn(3))
