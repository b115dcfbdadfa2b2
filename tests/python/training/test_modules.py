"""The modules of torch.nn in train mode: outputs, gradients of inputs and parameters, buffers, random numbers."""

import pytest
import torch
from against_eager import check
from torch import nn


class On(nn.Module):
    """A module that is one expression."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def floats(*shape):
    return lambda: torch.randn(shape)


def classes(count, *shape):
    return lambda: torch.randint(0, count, shape)


ACTIVATIONS = [
    nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.Tanh, nn.ELU, nn.SELU, nn.CELU, nn.LeakyReLU,
    nn.PReLU, nn.RReLU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.LogSigmoid, nn.Softplus,
    nn.Softshrink, nn.Softsign, nn.Tanhshrink,
]  # fmt: skip
CASES = {each.__name__: (each, [floats(3, 5, 7)]) for each in ACTIVATIONS}
CASES |= {
    "Threshold": (lambda: nn.Threshold(0.1, 20), [floats(4, 5)]),
    "GLU": (nn.GLU, [floats(4, 6)]),
    "GELUTanh": (lambda: nn.GELU(approximate="tanh"), [floats(4, 6)]),
    "Softmax": (lambda: nn.Softmax(dim=-1), [floats(4, 6)]),
    "Softmin": (lambda: nn.Softmin(dim=1), [floats(4, 6)]),
    "LogSoftmax": (lambda: nn.LogSoftmax(dim=1), [floats(4, 6, 3)]),
    "Softmax2d": (nn.Softmax2d, [floats(2, 3, 4, 4)]),
    "Linear": (lambda: nn.Linear(6, 3), [floats(4, 6)]),
    "LinearOf3": (lambda: nn.Linear(6, 3), [floats(2, 4, 6)]),
    "LinearWithoutBias": (lambda: nn.Linear(6, 3, bias=False), [floats(4, 6)]),
    "Bilinear": (lambda: nn.Bilinear(3, 4, 5), [floats(6, 3), floats(6, 4)]),
    "Identity": (lambda: nn.Sequential(nn.Identity(), nn.Tanh()), [floats(3)]),
    "Flatten": (lambda: nn.Sequential(nn.Tanh(), nn.Flatten()), [floats(2, 3, 4)]),
    "Unflatten": (lambda: nn.Sequential(nn.Tanh(), nn.Unflatten(1, (2, 3))), [floats(2, 6)]),
    "Embedding": (lambda: nn.Embedding(10, 4), [classes(10, 3, 5)]),
    "EmbeddingPadded": (lambda: nn.Embedding(10, 4, padding_idx=2), [classes(10, 3, 5)]),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(10, 4, mode="sum"), [classes(10, 3, 5)]),
    "LayerNorm": (lambda: nn.LayerNorm(6), [floats(4, 3, 6)]),
    "LayerNormPlain": (lambda: nn.LayerNorm((3, 6), elementwise_affine=False), [floats(4, 3, 6)]),
    "RMSNorm": (lambda: nn.RMSNorm(6), [floats(4, 3, 6)]),
    "GroupNorm": (lambda: nn.GroupNorm(2, 6), [floats(4, 6, 5)]),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3, affine=True), [floats(4, 3, 5)]),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, track_running_stats=True), [floats(4, 3, 5, 5)]),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), [floats(2, 4, 5, 5)]),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(6), [floats(8, 6)]),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), [floats(4, 3, 5, 5)]),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(3), [floats(2, 3, 2, 3, 3)]),
    "BatchNormMoving": (lambda: nn.BatchNorm2d(3, momentum=None), [floats(4, 3, 5, 5)]),
    "BatchNormPlain": (lambda: nn.BatchNorm1d(6, affine=False, track_running_stats=False), [floats(8, 6)]),
    "BatchNormEval": (lambda: nn.BatchNorm1d(6).eval(), [floats(8, 6)]),
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3, padding=1), [floats(2, 3, 8)]),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3, stride=2), [floats(2, 3, 8, 8)]),
    "Conv2dGroups": (lambda: nn.Conv2d(4, 4, 3, groups=4, bias=False), [floats(2, 4, 8, 8)]),
    "Conv2dReflect": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), [floats(2, 2, 6, 6)]),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), [floats(2, 2, 4, 4, 4)]),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(3, 4, 3), [floats(2, 3, 8)]),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), [floats(2, 3, 5, 5)]),
    "MaxPool1d": (lambda: nn.MaxPool1d(2), [floats(2, 3, 8)]),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, stride=2, padding=1), [floats(2, 3, 8, 8)]),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), [floats(2, 3, 4, 4, 4)]),
    "AvgPool1d": (lambda: nn.AvgPool1d(2), [floats(2, 3, 8)]),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, stride=2, padding=1), [floats(2, 3, 8, 8)]),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), [floats(2, 3, 4, 4, 4)]),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), [floats(2, 3, 4, 4)]),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((3, 2)), [floats(2, 3, 7, 8)]),
    "AdaptiveAvgPoolOne": (lambda: nn.AdaptiveAvgPool2d(1), [floats(2, 3, 7, 8)]),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((3, 2)), [floats(2, 3, 7, 8)]),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=3), [floats(2, 3, 7, 8)]),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), [floats(2, 3, 4, 4)]),
    "ReplicationPad1d": (lambda: nn.ReplicationPad1d(2), [floats(2, 3, 4)]),
    "ZeroPad2d": (lambda: nn.ZeroPad2d(1), [floats(2, 3, 4, 4)]),
    "ConstantPad1d": (lambda: nn.ConstantPad1d(2, 0.5), [floats(2, 3, 4)]),
    "CircularPad1d": (lambda: nn.CircularPad1d(2), [floats(2, 3, 4)]),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), [floats(2, 8, 3, 3)]),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), [floats(2, 2, 4, 4)]),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), [floats(2, 4, 3, 3)]),
    "Unfold": (lambda: nn.Unfold(2), [floats(2, 3, 4, 4)]),
    "Fold": (lambda: nn.Fold((4, 4), 2), [floats(2, 12, 9)]),
    "UpsampleNearest": (lambda: nn.Upsample(scale_factor=2), [floats(2, 3, 4, 4)]),
    "UpsampleBilinear": (lambda: nn.Upsample(size=(7, 5), mode="bilinear"), [floats(2, 3, 4, 4)]),
    "UpsampleBicubic": (
        lambda: nn.Upsample(scale_factor=2, mode="bicubic", align_corners=True),
        [floats(1, 2, 4, 4)],
    ),
    "Dropout": (lambda: nn.Dropout(0.3), [floats(20, 30)]),
    "Dropout2d": (lambda: nn.Dropout2d(0.3), [floats(4, 6, 3, 3)]),
    "AlphaDropout": (lambda: nn.AlphaDropout(0.3), [floats(20, 30)]),
    "FeatureAlphaDropout": (lambda: nn.FeatureAlphaDropout(0.3), [floats(4, 6, 3)]),
    "DropoutInEval": (lambda: nn.Sequential(nn.Dropout(0.3), nn.Tanh()).eval(), [floats(4, 6)]),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), [floats(2, 5, 8)] * 3),
    "MultiheadDropout": (lambda: nn.MultiheadAttention(8, 2, dropout=0.2), [floats(5, 2, 8)] * 3),
    "EncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), [floats(2, 5, 8)]),
    "EncoderLayerGelu": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True),
        [floats(5, 2, 8)],
    ),
    "DecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), [floats(5, 2, 8), floats(6, 2, 8)]),
    "RNN": (lambda: nn.RNN(4, 5), [floats(3, 2, 4)]),
    "LSTM": (lambda: nn.LSTM(4, 5, num_layers=2, batch_first=True), [floats(2, 3, 4)]),
    "GRU": (lambda: nn.GRU(4, 5, bidirectional=True), [floats(3, 2, 4)]),
    "RNNCell": (lambda: nn.RNNCell(4, 5), [floats(2, 4)]),
    "LSTMCell": (lambda: nn.LSTMCell(4, 5), [floats(2, 4)]),
    "GRUCell": (lambda: nn.GRUCell(4, 5), [floats(2, 4)]),
    "CosineSimilarity": (nn.CosineSimilarity, [floats(4, 5)] * 2),
    "PairwiseDistance": (nn.PairwiseDistance, [floats(4, 5)] * 2),
    "L1Loss": (nn.L1Loss, [floats(4, 5)] * 2),
    "MSELoss": (nn.MSELoss, [floats(4, 5)] * 2),
    "SmoothL1Loss": (nn.SmoothL1Loss, [floats(4, 5)] * 2),
    "HuberLoss": (nn.HuberLoss, [floats(4, 5)] * 2),
    "CrossEntropyLoss": (nn.CrossEntropyLoss, [floats(6, 5), classes(5, 6)]),
    "CrossEntropySmooth": (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), [floats(6, 5), classes(5, 6)]),
    "CrossEntropyIgnore": (lambda: nn.CrossEntropyLoss(ignore_index=1), [floats(6, 5), classes(5, 6)]),
    "CrossEntropy2d": (nn.CrossEntropyLoss, [floats(2, 5, 3, 3), classes(5, 2, 3, 3)]),
    "CrossEntropyOfProbabilities": (nn.CrossEntropyLoss, [floats(6, 5), lambda: torch.rand(6, 5)]),
    "NLLLoss": (nn.NLLLoss, [floats(6, 5), classes(5, 6)]),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), [floats(6, 5), lambda: torch.rand(6, 5)]),
    "BCELoss": (nn.BCELoss, [lambda: torch.rand(6, 5), lambda: torch.rand(6, 5)]),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, [floats(6, 5), lambda: torch.rand(6, 5)]),
    "SoftMarginLoss": (lambda: On(lambda a: nn.SoftMarginLoss()(a, a.detach().sign())), [floats(6, 5)]),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, [floats(6, 5), floats(6, 5), lambda: torch.ones(6)]),
    "MarginRankingLoss": (nn.MarginRankingLoss, [floats(6), floats(6), lambda: torch.ones(6)]),
    "TripletMarginLoss": (nn.TripletMarginLoss, [floats(6, 5)] * 3),
    "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, [floats(6), lambda: torch.ones(6)]),
    "MultiMarginLoss": (nn.MultiMarginLoss, [floats(6, 5), classes(5, 6)]),
    "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss, [floats(6, 5), lambda: torch.rand(6, 5)]),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, [floats(6, 5), lambda: torch.rand(6, 5)]),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, [floats(6, 5), floats(6, 5), lambda: torch.rand(6, 5) + 0.1]),
    "MatMul": (lambda: On(lambda a, b: a @ b), [floats(2, 3, 4), floats(2, 4, 5)]),
    "Einsum": (lambda: On(lambda a, b: torch.einsum("bij,bkj->bik", a, b)), [floats(2, 3, 4), floats(2, 5, 4)]),
    "Indexing": (lambda: On(lambda a, i: a[i] * 2), [floats(5, 4), classes(5, 3)]),
    "Gather": (lambda: On(lambda a, i: a.gather(1, i).exp()), [floats(5, 4), classes(4, 5, 2)]),
    "Where": (lambda: On(lambda a, b: torch.where(a > 0, a, b * 2)), [floats(5, 4)] * 2),
    "Broadcast": (lambda: On(lambda a, b: a * b + b), [floats(5, 4), floats(4)]),
    "CatSplit": (lambda: On(lambda a, b: torch.cat([a, b], 1).chunk(3, 1)), [floats(5, 4), floats(5, 5)]),
    "Stack": (lambda: On(lambda a, b: torch.stack([a, b]).amax(0)), [floats(5, 4)] * 2),
    "CumSum": (lambda: On(lambda a: a.cumsum(0).cumprod(1)), [floats(5, 4)]),
    "Norm": (lambda: On(lambda a: (a.norm(), a.std(), a.var(0))), [floats(5, 4)]),
    "Sort": (lambda: On(lambda a: a.sort(-1)), [floats(5, 4)]),
    "TopK": (lambda: On(lambda a: a.topk(2)), [floats(5, 4)]),
    "Attention": (
        lambda: On(lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)),
        [floats(2, 2, 5, 8)] * 3,
    ),
    "Clamp": (lambda: On(lambda a: a.clamp(-0.5, 0.5) + a.clamp(min=a.mean())), [floats(5, 4)]),
    "Powers": (lambda: On(lambda a, b: (a.abs() + 1).pow(b) + b**3), [floats(5, 4)] * 2),
    "SliceAssign": (lambda: On(slice_assigned), [floats(5, 4), floats(4)]),
    "Detached": (lambda: On(lambda a: (a * 2, (a * 3).detach(), a.exp().argmax())), [floats(5, 4)]),
    "NoGradInside": (lambda: On(without_gradients), [floats(5, 4)]),
    "Bfloat16Inside": (lambda: On(lambda a: (a.bfloat16() * 2).float() + a), [floats(5, 4)]),
    "Expanded": (
        lambda: On(lambda a: (a.expand(3, 5, 4) * 2, a.sum(0, keepdim=True).expand(5, 4) + 1)),
        [floats(5, 4)],
    ),
    "Double": (lambda: On(lambda a: a.double().exp()), [floats(5, 4)]),
}


def slice_assigned(a, b):
    out = a * 2
    out[1] = b
    out[2:4] += b.exp()
    return out


def without_gradients(a):
    scale = a.sigmoid()
    with torch.no_grad():
        mask = (scale > 0.5).float() * scale.mean()
    return scale * mask


# Modules whose code reads a value: native between two segments.
READS_VALUES = {"BatchNormMoving", "GaussianNLLLoss"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_module(name):
    make, given = CASES[name]
    torch.manual_seed(0)
    check(make(), lambda k: [each() for each in given], native=0, whole=name not in READS_VALUES)
