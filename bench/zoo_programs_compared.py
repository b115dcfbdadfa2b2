"""Programs for bench/zoo.py in the manner of research code, written by hand: contrasts, graphs and tables."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, drawn, image, tokens

# ---- what is learnt by comparing


@case("program simclr")
def make_simclr() -> Made:
    class SimCLR(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            views = torch.cat([x + 0.1 * torch.randn_like(x), x * (torch.rand_like(x) > 0.2)])
            features = F.normalize(self.net(views), dim=1)
            labels = torch.cat([torch.arange(x.size(0)) for _ in range(2)], dim=0)
            labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
            similarity = torch.matmul(features, features.T)
            mask = torch.eye(labels.shape[0], dtype=torch.bool)
            labels = labels[~mask].view(labels.shape[0], -1)
            similarity = similarity[~mask].view(similarity.shape[0], -1)
            positives = similarity[labels.bool()].view(labels.shape[0], -1)
            negatives = similarity[~labels.bool()].view(similarity.shape[0], -1)
            logits = torch.cat([positives, negatives], dim=1) / 0.07
            return F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long))

    return SimCLR().eval(), drawn((4, 6))


@case("program nt-xent without masks")
def make_nt_xent() -> Made:
    net = nn.Linear(6, 8).eval()

    def loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        z = F.normalize(net(torch.cat([a, b])), dim=-1)
        sim = z @ z.T / 0.5
        sim.fill_diagonal_(-9e15)
        n = a.size(0)
        positive = torch.cat([sim.diagonal(n), sim.diagonal(-n)])
        return (-positive + sim.logsumexp(-1)).mean()

    return loss, drawn((4, 6), (4, 6))


@case("program clip")
def make_clip() -> Made:
    class CLIP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.visual = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.Flatten(), nn.Linear(32, 8))
            self.embed, self.place = nn.Embedding(20, 8), nn.Parameter(torch.randn(5, 8))
            self.block = nn.TransformerEncoderLayer(8, 2, 16, 0.0, F.gelu, batch_first=True, norm_first=True)
            self.ln, self.projection = nn.LayerNorm(8), nn.Parameter(torch.randn(8, 8))
            self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))

        def mask(self, n: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.empty(n, n, dtype=dtype).fill_(float("-inf")).triu_(1)

        def forward(self, images: torch.Tensor, text: torch.Tensor) -> tuple:
            x = self.embed(text) + self.place
            x = self.ln(self.block(x, src_mask=self.mask(x.size(1), x.dtype)))
            t = x[torch.arange(x.shape[0]), text.argmax(dim=-1)] @ self.projection
            v = self.visual(images)
            v, t = v / v.norm(dim=1, keepdim=True), t / t.norm(dim=1, keepdim=True)
            logits = self.logit_scale.exp().clamp(max=100) * v @ t.t()
            labels = torch.arange(len(v), device=v.device)
            return logits, (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2

    return CLIP().eval(), lambda n: (
        image(2, 3, 8, 8)(n)[0],
        torch.cat([tokens(20, 5)(n)[0], tokens(20, 5)(n + 7)[0]]),
    )


@case("program byol")
def make_byol() -> Made:
    import copy

    class BYOL(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.online = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
            self.target, self.predictor = copy.deepcopy(self.online), nn.Linear(8, 8)
            for p in self.target.parameters():
                p.requires_grad = False

        @torch.no_grad()
        def update(self, beta: float = 0.99) -> None:
            for ours, theirs in zip(self.online.parameters(), self.target.parameters(), strict=True):
                theirs.data = theirs.data * beta + (1 - beta) * ours.data

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            if self.training:
                self.update()
            total = 0
            for x, y in ((a, b), (b, a)):
                p = F.normalize(self.predictor(self.online(x)), dim=-1)
                with torch.no_grad():
                    z = F.normalize(self.target(y), dim=-1).detach_()
                total = total + (2 - 2 * (p * z).sum(dim=-1)).mean()
            return total

    return BYOL().eval(), drawn((4, 6), (4, 6))


@case("program distillation")
def make_distillation() -> Made:
    class Distilled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.teacher = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4)).eval()
            self.student = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
            self.teacher.requires_grad_(False)

        def train(self, mode: bool = True) -> Any:
            super().train(mode)
            self.teacher.eval()
            return self

        def forward(self, x: torch.Tensor, T: float = 2.0, alpha: float = 0.7) -> torch.Tensor:
            with torch.no_grad():
                soft = F.softmax(self.teacher(x) / T, -1)
            logits = self.student(x)
            kd = F.kl_div(F.log_softmax(logits / T, -1), soft, reduction="batchmean") * T**2
            hard = F.cross_entropy(logits, soft.argmax(-1), label_smoothing=0.1)
            return alpha * kd + (1 - alpha) * hard

    return Distilled().eval(), drawn((5, 6))


# ---- graphs and tables


@case("program graph attention")
def make_gat() -> Made:
    class GAT(nn.Module):
        def __init__(self, n_in: int = 6, d: int = 4, heads: int = 2) -> None:
            super().__init__()
            self.lin, self.heads, self.d = nn.Linear(n_in, d * heads, bias=False), heads, d
            self.a_src, self.a_dst = (nn.Parameter(torch.randn(1, heads, d)) for _ in range(2))

        def softmax(self, e, index, n):
            most = e.new_full((n, e.size(1)), float("-inf"))
            most = most.scatter_reduce(0, index[:, None].expand_as(e), e, reduce="amax", include_self=True)
            e = (e - most[index]).exp()
            return e / (torch.zeros_like(most).index_add_(0, index, e)[index] + 1e-16)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            src, dst = edges
            h = self.lin(x).view(-1, self.heads, self.d)
            e = F.leaky_relu((h * self.a_src).sum(-1)[src] + (h * self.a_dst).sum(-1)[dst], 0.2)
            alpha = F.dropout(self.softmax(e, dst, x.size(0)), 0.2, self.training)
            out = torch.zeros_like(h)
            out.scatter_add_(0, dst[:, None, None].expand(-1, self.heads, self.d), alpha.unsqueeze(-1) * h[src])
            return F.elu(out.flatten(1))

    edges = torch.tensor([[0, 1, 2, 3, 4, 0, 2, 4], [1, 2, 3, 4, 0, 2, 4, 3]])
    return GAT().eval(), lambda n: (image(5, 6)(n)[0], edges)


@case("program gcn, sparse")
def make_gcn() -> Made:
    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w1, self.w2 = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor, adj: torch.Tensor) -> torch.Tensor:
            adj = adj + torch.eye(adj.size(0), dtype=adj.dtype)
            d = adj.sum(1).pow(-0.5)
            d[torch.isinf(d)] = 0
            adj = torch.diag(d) @ adj @ torch.diag(d)
            return F.log_softmax(torch.mm(adj, self.w2(F.relu(torch.spmm(adj, self.w1(x))))), 1)

    return GCN().eval(), lambda n: (image(5, 6)(n)[0], (image(5, 5)(n + 3)[0] > 0).float())


@case("program egnn")
def make_egnn() -> Made:
    class EGNN(nn.Module):
        def __init__(self, d: int = 4) -> None:
            super().__init__()
            self.edge = nn.Sequential(nn.Linear(2 * d + 1, 8), nn.SiLU(), nn.Linear(8, 8), nn.SiLU())
            self.node, self.coord = nn.Linear(d + 8, d), nn.Linear(8, 1, bias=False)

        def forward(self, h: torch.Tensor, x: torch.Tensor) -> tuple:
            n = h.size(0)
            pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
            row, col = (torch.tensor(k) for k in zip(*pairs, strict=True))
            diff = x[row] - x[col]
            m = self.edge(torch.cat([h[row], h[col], diff.pow(2).sum(1, keepdim=True)], 1))
            agg = torch.zeros(n, m.size(1), dtype=m.dtype).index_add(0, row, m)
            shift = diff * self.coord(m)
            count = torch.zeros(n, 1, dtype=m.dtype).index_add(0, row, torch.ones_like(shift[:, :1]))
            moved = torch.zeros_like(x).index_add(0, row, shift) / count.clamp(min=1)
            return h + self.node(torch.cat([h, agg], 1)), x + moved

    return EGNN().eval(), drawn((4, 4), (4, 3))


@case("program tabnet")
def make_tabnet() -> Made:
    class Sparsemax(nn.Module):
        def forward(self, x):
            z = x.sort(dim=-1, descending=True)[0]
            k = torch.arange(1, x.size(-1) + 1, dtype=x.dtype)
            cumulated = z.cumsum(-1) - 1
            support = k * z > cumulated
            size = support.sum(-1, keepdim=True)
            tau = cumulated.gather(-1, size - 1) / size.to(x.dtype)
            return torch.clamp(x - tau, min=0)

    class Ghost(nn.Module):
        def __init__(self, d: int, virtual: int = 2) -> None:
            super().__init__()
            self.bn, self.virtual = nn.BatchNorm1d(d, momentum=0.02), virtual

        def forward(self, x):
            chunks = x.chunk(math.ceil(x.shape[0] / self.virtual), 0) if not self.training else [x]
            return torch.cat([self.bn(c) for c in chunks], dim=0)

    class TabNet(nn.Module):
        def __init__(self, n: int = 6, d: int = 4, steps: int = 2) -> None:
            super().__init__()
            self.bn, self.d = nn.BatchNorm1d(n), d
            self.features = nn.ModuleList(
                [nn.ModuleList([nn.Linear(n, 4 * d), Ghost(4 * d)]) for _ in range(steps + 1)]
            )
            self.attention = nn.ModuleList([nn.ModuleList([nn.Linear(d, n), Ghost(n)]) for _ in range(steps)])
            self.sparsemax, self.head = Sparsemax(), nn.Linear(d, 2)

        def transform(self, k, x):
            fc, bn = self.features[k]
            return F.glu(bn(fc(x)), -1)

        def forward(self, x: torch.Tensor) -> tuple:
            x = self.bn(x)
            prior, loss, out = torch.ones_like(x), 0, 0
            att = self.transform(0, x)[:, self.d :]
            for step, (fc, bn) in enumerate(self.attention):
                M = self.sparsemax(bn(fc(att)) * prior)
                loss += torch.mean(torch.sum(torch.mul(M, torch.log(M + 1e-15)), dim=1))
                prior = torch.mul(1.3 - M, prior)
                both = self.transform(step + 1, torch.mul(M, x))
                out = out + F.relu(both[:, : self.d])
                att = both[:, self.d :]
            return self.head(out), loss / len(self.attention)

    return TabNet().eval(), drawn((4, 6))


@case("program ft-transformer")
def make_ft() -> Made:
    class FT(nn.Module):
        def __init__(self, numbers: int = 3, categories: tuple[int, ...] = (4, 5), d: int = 8) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(numbers, d)), nn.Parameter(torch.randn(numbers, d))
            self.register_buffer("offsets", torch.tensor([0, *categories[:-1]]).cumsum(0))
            self.table, self.cls = nn.Embedding(sum(categories), d), nn.Parameter(torch.randn(1, 1, d))
            layer = nn.TransformerEncoderLayer(d, 2, 16, 0.1, activation="gelu", batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, 1))

        def forward(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            numbers = x.unsqueeze(-1) * self.weight + self.bias
            x = torch.cat([self.cls.expand(len(x), -1, -1), numbers, self.table(c + self.offsets)], dim=1)
            return self.head(self.encoder(x)[:, 0]).squeeze(-1)

    return FT().eval(), lambda n: (
        image(4, 3)(n)[0],
        torch.stack([torch.arange(4) % 4, (torch.arange(4) + n) % 5], 1),
    )


@case("program deepfm")
def make_deepfm() -> Made:
    class DeepFM(nn.Module):
        def __init__(self, fields: tuple[int, ...] = (5, 6, 7), d: int = 4) -> None:
            super().__init__()
            self.register_buffer("offsets", torch.tensor([0, *fields[:-1]]).cumsum(0))
            self.linear, self.embed = nn.Embedding(sum(fields), 1), nn.Embedding(sum(fields), d)
            sizes, layers = [d * len(fields), 16, 8], []
            for a, b in zip(sizes, sizes[1:], strict=False):
                layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(0.2)]
            self.mlp = nn.Sequential(*layers, nn.Linear(8, 1))
            self.cross = nn.ParameterList([nn.Parameter(torch.randn(12, 1)) for _ in range(2)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.offsets.unsqueeze(0)
            e = self.embed(x)
            fm = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(1, keepdim=True)
            x0 = xl = e.flatten(1)
            for w in self.cross:
                xl = x0 * (xl @ w) + xl
            out = self.linear(x).sum(1) + fm + self.mlp(x0) + xl.mean(-1, keepdim=True)
            return torch.sigmoid(out.squeeze(1))

    return DeepFM().eval(), lambda n: (torch.stack([(torch.arange(4) * k + n) % (4 + k) for k in (1, 2, 3)], 1),)


@case("program two towers")
def make_towers() -> Made:
    """Din-like: a history that is as long as its user's, attended by the candidate."""

    class Interest(nn.Module):
        def __init__(self, d: int = 4) -> None:
            super().__init__()
            self.items, self.users = nn.Embedding(20, d, padding_idx=0), nn.Embedding(10, d)
            self.att = nn.Sequential(nn.Linear(4 * d, 8), nn.PReLU(), nn.Linear(8, 1))
            self.item_tower = nn.Linear(d, 8)
            self.user_tower = nn.Linear(2 * d, 8)

        def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            query, keys = self.items(batch["item"]), self.items(batch["history"])
            q = query.unsqueeze(1).expand_as(keys)
            score = self.att(torch.cat([q, keys, q - keys, q * keys], -1)).squeeze(-1)
            score = torch.where(batch["history"] > 0, score, torch.full_like(score, -(2**15)))
            interest = (score.softmax(-1).unsqueeze(1) @ keys).squeeze(1)
            u = F.normalize(self.user_tower(torch.cat([self.users(batch["user"]), interest], -1)), dim=-1)
            v = F.normalize(self.item_tower(query), dim=-1)
            return {"score": (u * v).sum(-1), "all": u @ v.T / 0.1}

    def inputs(number: int) -> tuple:
        g = torch.Generator().manual_seed(number)
        history = torch.randint(1, 20, (3, 5), generator=g) * (torch.arange(5) < torch.tensor([[5], [2], [3]]))
        return (
            {
                "item": torch.randint(1, 20, (3,), generator=g),
                "user": torch.randint(0, 10, (3,), generator=g),
                "history": history,
            },
        )

    return Interest().eval(), inputs
