"""Gradients that read a part of what the forward computes: it is saved without the gaps that it has in eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import braze

PRODUCERS = {
    "argument": lambda x: x,
    "product": lambda x: x * 1.5,
    "flipped": lambda x: x.flip(-1),
    "rolled": lambda x: x.roll(1, -1),
    "concatenated": lambda x: torch.cat([x[:, 1:], x[:, :1]], 1),
    "matrix product": lambda x: x @ torch.eye(8),
    "softmax": lambda x: x.softmax(1),
    "rows picked": lambda x: x[:, torch.tensor([3, 1, 2, 0, 4, 7, 6, 5])],
}
PARTS = {
    "slice": lambda z: z[..., :3],
    "transposed slice": lambda z: z.t()[..., ::2],
    "first of transposed": lambda z: z.transpose(0, 1)[:3],
    "expanded": lambda z: z[:1].expand(4, 8),
    "diagonal": lambda z: z.diagonal(),
    "windows": lambda z: z.unfold(1, 3, 2),
    "column": lambda z: z[:, 2],
    "every third": lambda z: z[:, ::3],
    "as strided": lambda z: z.as_strided((2, 3), (4, 2), 1),
    "permuted": lambda z: z.view(z.shape[0], 2, 4).permute(2, 0, 1)[1:3],
    "expanded slice": lambda z: z[:, 1:4].t().unsqueeze(0).expand(5, 3, z.shape[0]),
}
READERS = {
    "prod": lambda v: v.prod(-1),
    "sorted": lambda v: v.sort(-1).values * v,
    "logsumexp": lambda v: v.logsumexp(-1) * v.std(),
    "softmax": lambda v: v.softmax(-1) * v,
    "cumprod": lambda v: v.cumprod(-1),
    "norm": lambda v: v.norm(dim=-1),
    "amax": lambda v: v.amax(-1) * v.var(),
    "outer product": lambda v: v.reshape(-1, 1) @ v.reshape(1, -1),
    "given back": lambda v: (v, v.prod(-1)),
    "given back later": lambda v: (v.prod(-1), v.exp()),
    "median": lambda v: v.median(-1).values * v.sum(),
    "group norm": lambda v: F.group_norm(v.reshape(1, 1, -1), 1),
}


def results(call, x):
    x = x.clone().requires_grad_()
    found = call(x)
    found = found if isinstance(found, tuple) else (found,)
    sum((one * one.detach().cos()).sum() for one in found).backward()
    return [*found, x.grad]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_values_and_strides(producer, part, dynamic):
    produce, take = PRODUCERS[producer], PARTS[part]
    for name, read in READERS.items():

        def function(x, read=read):
            return read(take(produce(x)))

        compiled = braze.compile(function, dynamic=dynamic)
        for seed in range(2):
            torch.manual_seed(seed)
            x = torch.randn(8 if part == "diagonal" else 2, 8)
            for ours, eager in zip(results(compiled, x), results(function, x), strict=True):
                assert ours.stride() == eager.stride(), name
                torch.testing.assert_close(ours, eager, rtol=1e-3, atol=1e-4, msg=name)
        assert compiled.counts()["native"] == 0, name
