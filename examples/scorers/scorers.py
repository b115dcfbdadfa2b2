"""The three relevance scorers: which tokens of an image matter."""

import torch
from torch import nn
from torch.nn import functional as F


class Information(nn.Module):
    """Relevance by information: the entropy of each token's softmax. (B, N, D) -> (B, N)."""

    def forward(self, features, query):
        p = torch.softmax(features, dim=-1)
        return -(p * torch.log(p + 1e-9)).sum(dim=-1)


class Salience(nn.Module):
    """Relevance by salience: edges and local contrast on the token grid. (B, S*S, D) -> (B, S*S)."""

    def forward(self, features, query):
        batch, tokens, _ = features.shape
        side = int(tokens**0.5)
        grid = features.mean(dim=-1).view(batch, 1, side, side)
        edge = [[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]
        sobel = torch.tensor(edge, dtype=grid.dtype, device=grid.device)
        gx = F.conv2d(grid, sobel.view(1, 1, 3, 3), padding=1)
        gy = F.conv2d(grid, sobel.t().reshape(1, 1, 3, 3), padding=1)
        edges = torch.sqrt(gx**2 + gy**2 + 1e-8)
        contrast = (grid - F.avg_pool2d(grid, kernel_size=3, stride=1, padding=1)).abs()
        return (edges + contrast).view(batch, tokens)


class QueryContent(nn.Module):
    """Relevance to a query: attention weights of one query over the tokens. (B, N, D), (B, 1, D) -> (B, N)."""

    def forward(self, features, query):
        scale = torch.sqrt(torch.tensor(float(features.shape[-1]), dtype=features.dtype))
        scores = query @ features.transpose(1, 2) / scale
        return torch.softmax(scores, dim=-1).squeeze(1)


class AllScorers(nn.Module):
    """The three scorers in one program."""

    def __init__(self):
        super().__init__()
        self.scorers = nn.ModuleList([Information(), Salience(), QueryContent()])

    def forward(self, features, query):
        return tuple(scorer(features, query) for scorer in self.scorers)
