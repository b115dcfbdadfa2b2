"""Views of other types, conjugates, parts of complex tensors: one memory, whoever writes to it."""

import torch
from staleness import call, case, module, tensor


def real():
    return tensor(4, 4)


def complexes():
    return torch.complex(tensor(2, 4), tensor(2, 4) + 8)


REAL = {
    "int32": "x.view(torch.int32)",
    "uint8": "x.view(torch.uint8)",
    "int16_odd": "x.view(torch.int16)[..., 1::2]",
    "float64": "x.view(torch.float64)",
    "there_and_back": "x.view(torch.int64).view(torch.float32)",
    "dlpack": "torch.from_dlpack(x)",
    "lift_fresh": "torch.ops.aten.lift_fresh(x)",
    "as_complex": "torch.view_as_complex(x.view(-1, 2))",
    "as_complex_row": "torch.view_as_complex(x.view(4, 2, 2)[1])",
    "negative": "torch._neg_view(x)",
    "negative_row": "torch._neg_view(x)[2]",
    "transposed_negative": "torch._neg_view(x.t())",
    "int32_column": "x.view(torch.int32)[:, 1]",
    "detached": "x.detach()[1:]",
}
COMPLEX = {
    "as_real": "torch.view_as_real(x)",
    "as_real_part": "torch.view_as_real(x)[1, ..., 0]",
    "real": "x.real",
    "imag": "x.imag",
    "conj": "x.conj()",
    "conj_row": "x.conj()[1]",
    "conj_conj": "x.conj().conj()",
    "conj_imag": "x.conj().imag",
    "conj_real": "x.conj().real",
    "mH": "x.mH",
    "adjoint": "x.adjoint()[1:]",
    "resolved": "x.resolve_conj()",
    "float32": "x.view(torch.float32)",
    "float64": "x.view(torch.float64)",
    "int32": "x.view(torch.int32)",
    "transposed": "x.t()",
    "row": "x[1]",
    "columns": "x[:, 1:3]",
    "strided": "x[:, ::2]",
    "flat": "x.view(-1)",
    "split": "x.split(2, 1)[1]",
    "unfolded": "x.unfold(1, 2, 2)",
    "windows": "x.as_strided((2, 2), (1, 2), 1)",
    "diagonal": "x.diagonal()",
    "added_dimension": "x.unsqueeze(1).squeeze(0)",
}
FORMS = {
    "filled": "def f(x):\n    v = {view}\n    v.fill_(0)\n    return x * 2",
    "written_later": "def f(x):\n    v = {view}\n    x.mul_(3)\n    return v.clone()",
    "to_and_fro": "def f(x):\n    v = {view}\n    v.mul_(2)\n    x.add_(1)\n    v[..., 0] = 5\n    return v + 0, x",
    "fresh": "def f(x):\n    x = x * 1\n    v = {view}\n    v.mul_(2)\n    x[0].add_(1)\n    return x, v",
    "returned": "def f(x):\n    v = {view}\n    return v, v.is_conj(), v.is_neg(), v.dtype",
}


def cases_of(kind, make, views):
    for name, view in views.items():
        for form, source in FORMS.items():

            @case(name=f"{kind}_{name}_{form}", evolves=True)
            def one(source=source, view=view, make=make):
                m = module(source.format(view=view))
                yield m.f, make()
                yield make() + 2
                yield make().flip(0)


cases_of("real", real, REAL)
cases_of("complex", complexes, COMPLEX)


PARTS = {
    "item": "z[0] = 0",
    "element": "z[1, 2] = 3 - 1j",
    "real": "z.real[0] = 7",
    "imag": "z.imag += 2",
    "column": "z[:, 1] *= 2j",
    "diagonal": "z.diagonal().fill_(1j)",
    "mask": "z[z.real > 3] = 0",
    "index": "z[torch.tensor([1, 0]), torch.tensor([0, 3])] = 9",
    "index_add": "z.index_add_(1, torch.tensor([0, 2]), z[:, :2].clone())",
    "out": "torch.add(z[0], 1, out=z[1])",
    "row_of_conj": "z.conj()[0].copy_(z[1] * 1j)",
    "half_of_real": "torch.view_as_real(z)[..., 1].mul_(-1)",
    "swap": "z[0], z[1] = z[1].clone(), z[0].clone()",
    "where": "z.copy_(torch.where(z.imag > 9, z, z.conj()))",
    "transposed": "z.t()[2].add_(1)",
    "expanded": "z.copy_(z[0].clone().expand(2, 4))",
}
for name, statement in PARTS.items():
    for origin, begin in {
        "input": "z = x",
        "made": "z = x * 1",
        "complex": "z = torch.complex(x.real, x.imag)",
    }.items():

        @case(name=f"part_{name}_{origin}", evolves=True)
        def part(source=f"def f(x):\n    {begin}\n    {statement}\n    return z, x.real.sum()"):
            m = module(source)
            yield m.f, complexes()
            yield complexes() * 2


@case(evolves=True)
def shared_by_numpy():
    m = module("def f(x, y):\n    x.add_(1)\n    return y * 2")
    a = tensor().numpy()
    yield m.f, torch.from_numpy(a), torch.from_numpy(a)
    yield torch.from_numpy(a), torch.from_numpy(a)[:]
    yield tensor(), tensor()


@case(evolves=True)
def shared_by_numpy_in_part():
    m = module("def f(x, y):\n    y.mul_(2)\n    return x + 1, x[1:] * y")
    a = tensor().numpy()
    yield m.f, torch.from_numpy(a), torch.from_numpy(a[1:])
    yield torch.from_numpy(a), torch.from_numpy(a)[1:]
    yield tensor(), tensor()[1:]


@case(evolves=True)
def shared_by_numpy_with_the_smaller_first():
    m = module("def f(x, y):\n    x.mul_(2)\n    y.add_(x.sum())\n    return x, y")
    a = tensor().numpy()
    yield m.f, torch.from_numpy(a[2:]), torch.from_numpy(a)
    yield tensor()[2:], tensor()


@case(evolves=True)
def shared_of_two_types():
    m = module("def f(x, y):\n    y.zero_()\n    return x * 2")
    a = tensor().numpy()
    yield m.f, torch.from_numpy(a), torch.from_numpy(a.view("int32"))[:2]
    x = tensor()
    yield x, x.view(torch.int32)[2:]


@case(evolves=True)
def shared_by_buffer():
    m = module("def f(x, y):\n    x.add_(1)\n    return y.long() + 1")
    b = bytearray(range(16))
    yield m.f, torch.frombuffer(b, dtype=torch.int32), torch.frombuffer(b, dtype=torch.uint8)
    yield torch.frombuffer(bytearray(16), dtype=torch.int32), torch.frombuffer(b, dtype=torch.uint8)


@case(evolves=True)
def shared_neither_holds_the_other():
    m = module("def f(x, y):\n    x.add_(1)\n    return y * 2")
    a = tensor(6).numpy()
    yield m.f, torch.from_numpy(a[:4]), torch.from_numpy(a[2:])
    yield tensor(), tensor()


@case(evolves=True)
def shared_with_a_global():
    a = tensor().numpy()
    m = module("def f(x):\n    x.add_(1)\n    return G * 2", G=torch.from_numpy(a))
    yield m.f, torch.from_numpy(a)
    m.G = tensor()
    yield torch.from_numpy(a)


@case(evolves=True)
def shared_by_dlpack_twice():
    m = module(
        "def f(x):\n    a, b = torch.from_dlpack(x), torch.from_dlpack(x)\n    a.add_(1)\n    return b * 2, x"
    )
    yield m.f, tensor()
    yield tensor() * 3


OVERLAPS = {
    "shifted_add": "x[1:].add_(x[:-1])",
    "shifted_copy": "x[1:].copy_(x[:-1])",
    "shifted_out": "torch.mul(x[:-1], 2, out=x[1:])",
    "transposed": "x.view(2, 2).add_(x.view(2, 2).t())",
    "expanded": "x[:1].expand(4).add_(1)",
    "expanded_fill": "x[:1].expand(4).fill_(3)",
    "expanded_copy": "x[:1].expand(4).copy_(x)",
    "windows": "x.unfold(0, 2, 1).mul_(2)",
    "strided_apart": "x[::2].add_(x[1::2])",
    "itself": "x.add_(x)",
    "its_view": "x.add_(x.view(4))",
    "reversed": "x[:2].copy_(x[1:3].flip(0))",
    "where": "torch.where(x > 2, x, -x, out=x)",
    "cumsum_in_place": "x.cumsum_(0)",
    "matmul_out": "torch.mm(x.view(2, 2), x.view(2, 2), out=x.view(2, 2))",
    "addcmul": "x[:3].addcmul_(x[1:], x[1:])",
    "lerp": "x[1:].lerp_(x[:-1], 0.5)",
    "masked_fill": "x[1:].masked_fill_(x[:-1] > 2, 0)",
    "index_copy": "x.index_copy_(0, torch.tensor([0, 1]), x[2:])",
    "scatter": "x.scatter_(0, torch.tensor([0, 1]), x[1:3])",
    "foreach": "torch._foreach_add_([x, x], 1)",
    "foreach_views": "torch._foreach_mul_([x[1:], x[:-1]], 2)",
    "relu": "torch.nn.functional.relu(x[1:], inplace=True).add_(x[1:])",
    "sqrt_out": "torch.sqrt(x[1:], out=x[:-1])",
    "cat_out": "torch.cat([x[:2], x[2:]], out=x)",
    "normal": "x[:1].expand(4).normal_()",
    "clamp_out": "torch.clamp(x, 2, 3, out=x)",
}
for name, statement in OVERLAPS.items():

    @case(name=f"overlap_{name}", evolves=True)
    def overlap(source=f"def f(x, y):\n    if SAFE: return y + 1\n    {statement}\n    return x * 2 + y"):
        m = module(source, SAFE=False)
        yield m.f, tensor(), tensor()
        yield tensor() * 2, tensor()
        m.SAFE = True
        yield tensor(), tensor()


@case(evolves=True)
def overlap_by_numpy():
    m = module("def f(x, y):\n    x.add_(y)\n    return x * 2")
    a = tensor(5).numpy()
    yield call(m.f, torch.from_numpy(a[:4]), torch.from_numpy(a[:4]))
    yield tensor(), tensor()


@case(evolves=True)
def larger_elements_from_an_odd_place():
    m = module("def f(x): return x.view(torch.int64) + 1")
    yield m.f, tensor(6)[2:]
    yield tensor(5)[1:]


@case(evolves=True)
def complex_from_an_odd_place():
    m = module("def f(x): return torch.view_as_complex(x.view(2, 2))")
    yield m.f, tensor(6)[2:]
    yield tensor(5)[1:]


IN_PLACE_SHAPES = [
    "t_()",
    "transpose_(0, 1)",
    "unsqueeze_(1)",
    "squeeze_()",
    "swapaxes_(0, 1)",
    "as_strided_((2, 2), (1, 2))",
]
for k, method in enumerate(IN_PLACE_SHAPES):

    @case(name=f"in_place_shape_{k}", evolves=True)
    def in_place(method=method):
        m = module(
            f"def f(x):\n    y = x * 2\n    y.{method}\n    y[0] = 7\n    return y, y.stride(), y.reshape(-1) + 1"
        )
        yield m.f, tensor(2, 3)
        yield tensor(2, 3) + 1


SPECTRA = {
    "stft_reshaped": "torch.stft(x, 16, 4, window=W, return_complex=True).reshape(9, -1)",
    "stft_power": "torch.stft(x, 16, 4, window=W, return_complex=True).abs().pow(2)",
    "stft_flat": "torch.stft(x, 16, 4, window=W, return_complex=True).flatten(-2).angle()",
    "stft_parts": "torch.view_as_real(torch.stft(x, 16, 4, window=W, return_complex=True)).sum(-1)",
    "stft_real": "torch.stft(x, 16, 4, window=W, return_complex=True).real.contiguous()",
    "there_and_back": "torch.istft(torch.stft(x, 16, 4, window=W, return_complex=True), 16, 4, window=W)",
    "not_centred": "torch.stft(x, 16, 8, window=W, center=False, onesided=False, return_complex=True)",
    "mel": "torch.einsum('...ft,fm->...mt', torch.stft(x, 16, 4, window=W, return_complex=True).abs(), M)",
    "rfft": "torch.fft.irfft(torch.fft.rfft(x) * 2)",
    "rope": "torch.view_as_real(torch.view_as_complex(x.view(1, 32, 2)) * torch.polar(W[4:5], W[5:6])).flatten(1)",
}
for name, expression in SPECTRA.items():

    @case(name=f"spectrum_{name}")
    def spectrum(expression=expression):
        m = module(
            f"def f(x):\n    y = {expression}\n"
            "    return torch.round(torch.view_as_real(y + 0j), decimals=2), y.stride()"
        )
        m.W, m.M = torch.hann_window(16), torch.linspace(0, 1, 36).reshape(9, 4)
        yield m.f, torch.sin(torch.arange(64.0)).reshape(1, 64)
        yield torch.cos(torch.arange(64.0)).reshape(1, 64)
