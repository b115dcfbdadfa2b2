"""Tables of losses and layers, in several layouts."""

import torch
import torch.nn.functional as F
from program_cases import case, grads_of, mlp
from torch import nn


def told(t):
    return None if t is None else (t.clone(), tuple(t.stride()), str(t.dtype))


@case
def losses_table(compile):
    m = mlp()
    for loss in (
        nn.MSELoss(),
        nn.L1Loss(reduction="sum"),
        nn.SmoothL1Loss(beta=0.5),
        nn.HuberLoss(delta=0.3),
        nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0])),
        nn.SoftMarginLoss(),
        nn.MultiLabelSoftMarginLoss(),
        nn.PoissonNLLLoss(),
        nn.KLDivLoss(reduction="batchmean"),
        nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.tensor([1.0, 2.0, 0.5])),
    ):
        f = compile(lambda x, y: loss(m(x), y))  # noqa: B023
        for n in (3, 4):
            m.zero_grad()
            cost = f(torch.randn(n, 4), torch.rand(n, 3).round())
            cost.backward()
            yield cost, [told(g) for g in grads_of(m).values()]
    for loss in (
        nn.CrossEntropyLoss(ignore_index=1),
        nn.NLLLoss(),
        nn.MultiMarginLoss(),
        nn.CrossEntropyLoss(reduction="none"),
    ):
        f = compile(lambda x, y: loss(m(x), y).sum())  # noqa: B023
        for n in (3, 4):
            m.zero_grad()
            cost = f(torch.randn(n, 4), torch.randint(3, (n,)))
            cost.backward()
            yield cost, [told(g) for g in grads_of(m).values()]
    for f in (
        compile(lambda a, b: F.triplet_margin_loss(m(a), m(b), m(a + b))),
        compile(lambda a, b: F.cosine_embedding_loss(m(a), m(b), torch.tensor([1.0, -1.0, 1.0]))),
        compile(lambda a, b: F.margin_ranking_loss(m(a), m(b), torch.ones(3, 3))),
        compile(
            lambda a, b: F.ctc_loss(
                m(a)[:, None].log_softmax(-1), torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1])
            )
        ),
        compile(lambda a, b: F.gaussian_nll_loss(m(a), m(b).detach(), m(b).exp())),
    ):
        for _ in range(2):
            m.zero_grad()
            cost = f(torch.randn(3, 4), torch.randn(3, 4))
            cost.backward()
            yield cost, [told(g) for g in grads_of(m).values()]


@case
def layers_table(compile):
    for make, s in (
        (lambda: nn.Conv1d(4, 6, 3, padding="same", dilation=2), (2, 4, 8)),
        (lambda: nn.Conv2d(4, 4, 3, groups=2, stride=2, padding=1, padding_mode="reflect"), (2, 4, 6, 6)),
        (lambda: nn.ConvTranspose2d(4, 2, 3, 2, output_padding=1), (2, 4, 5, 5)),
        (lambda: nn.Conv3d(4, 2, 2), (1, 4, 4, 4, 4)),
        (lambda: nn.MultiheadAttention(4, 2, batch_first=True, dropout=0.1), (2, 5, 4)),
        (
            lambda: nn.TransformerEncoderLayer(4, 2, 8, norm_first=True, batch_first=True, activation="gelu"),
            (2, 5, 4),
        ),
        (lambda: nn.AdaptiveAvgPool2d(3), (2, 4, 7, 7)),
        (lambda: nn.AdaptiveMaxPool2d(3), (2, 4, 7, 7)),
        (lambda: nn.FractionalMaxPool2d(2, output_size=3), (2, 4, 7, 7)),
        (lambda: nn.LPPool2d(2, 2), (2, 4, 6, 6)),
        (lambda: nn.PixelShuffle(2), (2, 4, 3, 3)),
        (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (2, 4, 3, 3)),
        (lambda: nn.LocalResponseNorm(2), (2, 4, 3, 3)),
        (lambda: nn.CrossMapLRN2d(2), (2, 4, 3, 3)),
        (lambda: nn.RReLU(), (3, 4)),
        (lambda: nn.PReLU(4), (2, 4, 3)),
        (lambda: nn.Softmax2d(), (2, 4, 3, 3)),
        (lambda: nn.Unfold(2), (2, 4, 5, 5)),
        (lambda: nn.Fold((4, 4), 2), (2, 16, 9)),
        (lambda: nn.Bilinear(4, 4, 3), (3, 4)),
        (lambda: nn.MaxPool2d(2, return_indices=False, ceil_mode=True), (2, 4, 5, 5)),
        (lambda: nn.GroupNorm(2, 4), (2, 4, 5)),
        (lambda: nn.RMSNorm(4), (2, 3, 4)),
        (lambda: nn.ReflectionPad2d(1), (2, 4, 3, 3)),
        (lambda: nn.Hardshrink(), (3, 4)),
        (lambda: nn.Threshold(0.1, 2.0), (3, 4)),
    ):
        m = make()
        f = compile(
            (lambda x: m(x, x, x)[0])  # noqa: B023
            if isinstance(m, nn.MultiheadAttention)
            else (lambda x: m(x, x))  # noqa: B023
            if isinstance(m, nn.Bilinear)
            else m
        )
        for cl in (False, True, False):
            x = torch.randn(s)
            x = (x.to(memory_format=torch.channels_last) if cl and x.dim() == 4 else x).requires_grad_()
            m.zero_grad()
            y = f(x)
            y.sin().sum().backward()
            yield type(m).__name__, y, told(x.grad), [told(g) for g in grads_of(m).values()]
