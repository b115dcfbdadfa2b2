"""Programs for bench/zoo.py in the manner of research code, written by hand: experts, sets, adapters."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, drawn, image

# ---- experts


@case("program switch transformer")
def make_switch() -> Made:
    """One expert a token, each with so many places: what does not fit is handed on."""

    class Switch(nn.Module):
        def __init__(self, d: int = 8, experts: int = 3, capacity: int = 3) -> None:
            super().__init__()
            self.gate, self.capacity, self.count = nn.Linear(d, experts, bias=False), capacity, experts
            self.experts = nn.ModuleList(
                [nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, d)) for _ in range(experts)]
            )

        def forward(self, x: torch.Tensor) -> tuple:
            flat = x.reshape(-1, x.size(-1))
            p = F.softmax(self.gate(flat), dim=-1)
            best, chosen = p.max(-1)
            mask = F.one_hot(chosen, self.count)
            place = torch.cumsum(mask, dim=0) * mask
            mask = mask * torch.lt(place, self.capacity + 1)
            load = self.count * (mask.to(p.dtype).mean(0) * p.mean(0)).sum()
            where = F.one_hot((place - 1).clamp(min=0).sum(-1) % self.capacity, self.capacity).to(p.dtype)
            dispatch = mask.to(p.dtype).unsqueeze(-1) * where.unsqueeze(1)
            given = torch.einsum("nec,nd->ecd", dispatch, flat)
            made = torch.stack([expert(given[k]) for k, expert in enumerate(self.experts)])
            out = torch.einsum("nec,ecd->nd", dispatch * best[:, None, None], made)
            kept = mask.sum(-1, keepdim=True).bool()
            return torch.where(kept, out, flat).view_as(x), load

    return Switch().eval(), image(2, 4, 8)


@case("program experts by counts")
def make_counted() -> Made:
    """Tokens ordered by their expert, split by lists of counts, and put back."""

    class MoE(nn.Module):
        def __init__(self, d: int = 8, experts: int = 3) -> None:
            super().__init__()
            self.gate = nn.Linear(d, experts)
            self.experts = nn.ModuleList([nn.Linear(d, d) for _ in range(experts)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights, ids = F.softmax(self.gate(x), -1).topk(2)
            counts = x.new_zeros((ids.shape[0], len(self.experts)))
            counts.scatter_(1, ids, 1)
            per_expert = counts.sum(dim=0).long()
            order = ids.view(-1).argsort()
            ordered = x[order // ids.shape[1]]
            outputs, start = [], 0
            for i, n in enumerate(per_expert.tolist()):
                if n == 0:
                    continue
                outputs.append(self.experts[i](ordered[start : start + n]))
                start += n
            outs = torch.cat(outputs, dim=0)
            back = torch.empty_like(outs)
            back[order] = outs
            return (back.view(*ids.shape, -1) * weights.unsqueeze(-1)).sum(1)

    return MoE().eval(), drawn((6, 8))


@case("program soft experts")
def make_soft() -> Made:
    """Experts as one tensor of weights, with noise on the gate: Shazeer's."""

    class Soft(nn.Module):
        def __init__(self, d: int = 8, experts: int = 4) -> None:
            super().__init__()
            self.w1, self.w2 = nn.Parameter(torch.randn(experts, d, 16)), nn.Parameter(torch.randn(experts, 16, d))
            self.gate, self.noise = nn.Parameter(torch.randn(d, experts)), nn.Parameter(torch.zeros(d, experts))

        def forward(self, x: torch.Tensor) -> tuple:
            clean = x @ self.gate
            std = F.softplus(x @ self.noise) + 1e-2
            logits = clean + torch.randn_like(clean) * std if self.training else clean
            top, index = logits.topk(3, dim=1)
            gates = torch.zeros_like(logits).scatter(1, index[:, :2], F.softmax(top[:, :2], 1))
            importance = gates.sum(0)
            cv = importance.float().var() / (importance.float().mean() ** 2 + 1e-10)
            y = torch.einsum("bd,edh->beh", x, self.w1).relu()
            return torch.einsum("beh,ehd,be->bd", y, self.w2, gates), cv

    return Soft().eval(), drawn((5, 8))


# ---- sets, capsules, weights made by networks


@case("program deep sets")
def make_deep_sets() -> Made:
    class DeepSets(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.phi = nn.Sequential(nn.Linear(3, 8), nn.ELU(), nn.Linear(8, 8))
            self.rho = nn.Sequential(nn.Linear(16, 8), nn.ELU(), nn.Linear(8, 2))

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            h = self.phi(x) * mask.unsqueeze(-1)
            most = h.masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(1)
            return self.rho(torch.cat([h.sum(1) / mask.sum(1, keepdim=True).clamp(min=1), most], -1))

    return DeepSets().eval(), lambda n: (image(2, 5, 3)(n)[0], torch.arange(5) < torch.tensor([[5], [3]]))


@case("program set transformer")
def make_set_transformer() -> Made:
    class MAB(nn.Module):
        def __init__(self, q: int, k: int, d: int, heads: int = 2, ln: bool = True) -> None:
            super().__init__()
            self.d, self.heads = d, heads
            self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(n, d) for n in (q, k, k, d))
            if ln:
                self.ln0, self.ln1 = nn.LayerNorm(d), nn.LayerNorm(d)

        def forward(self, Q, K):
            Q = self.fc_q(Q)
            K, V = self.fc_k(K), self.fc_v(K)
            split = self.d // self.heads
            Q_, K_, V_ = (torch.cat(x.split(split, 2), 0) for x in (Q, K, V))
            A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.d), 2)
            Y = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
            Y = Y if getattr(self, "ln0", None) is None else self.ln0(Y)
            Y = Y + F.relu(self.fc_o(Y))
            return Y if getattr(self, "ln1", None) is None else self.ln1(Y)

    class ISAB(nn.Module):
        def __init__(self, n: int, d: int) -> None:
            super().__init__()
            self.I = nn.Parameter(torch.empty(1, 3, d))
            nn.init.xavier_uniform_(self.I)
            self.a, self.b = MAB(d, n, d), MAB(n, d, d)

        def forward(self, X):
            return self.b(X, self.a(self.I.repeat(X.size(0), 1, 1), X))

    class PMA(nn.Module):
        def __init__(self, d: int, seeds: int) -> None:
            super().__init__()
            self.S, self.mab = nn.Parameter(torch.randn(1, seeds, d)), MAB(d, d, d, ln=False)

        def forward(self, X):
            return self.mab(self.S.repeat(X.size(0), 1, 1), X)

    return nn.Sequential(ISAB(3, 8), ISAB(8, 8), PMA(8, 2), nn.Linear(8, 2)).eval(), image(2, 5, 3)


@case("program perceiver")
def make_perceiver() -> Made:
    def cache_fn(f: Any) -> Any:
        cache = {}

        def cached(*args: Any, _cache: bool = True, key: Any = None, **kwargs: Any) -> Any:
            if not _cache:
                return f(*args, **kwargs)
            if key not in cache:
                cache[key] = f(*args, **kwargs)
            return cache[key]

        return cached

    class Attend(nn.Module):
        def __init__(self, d: int, context: int) -> None:
            super().__init__()
            self.norm, self.norm_context = nn.LayerNorm(d), nn.LayerNorm(context)
            self.q, self.kv, self.out = nn.Linear(d, d), nn.Linear(context, 2 * d), nn.Linear(d, d)

        def forward(self, x, context=None):
            context = self.norm_context(x if context is None else context)
            k, v = self.kv(context).chunk(2, -1)
            return self.out(F.scaled_dot_product_attention(self.q(self.norm(x)), k, v))

    class Perceiver(nn.Module):
        def __init__(self, d: int = 8, bands: int = 2, depth: int = 2) -> None:
            super().__init__()
            self.bands, width = bands, 3 + 2 * (2 * bands + 1)
            self.latents = nn.Parameter(torch.randn(4, d))
            cross, inner = cache_fn(lambda: Attend(d, width)), cache_fn(lambda: Attend(d, d))
            self.layers = nn.ModuleList(
                [nn.ModuleList([cross(_cache=k > 0, key="x"), inner(_cache=k > 0, key="i")]) for k in range(depth)]
            )
            self.head = nn.Linear(d, 3)

        def fourier(self, x):
            x = x.unsqueeze(-1)
            scales = torch.linspace(1.0, 5.0, self.bands, dtype=x.dtype)[(*((None,) * (len(x.shape) - 1)), ...)]
            angles = x * scales * math.pi
            return torch.cat((torch.cat([angles.sin(), angles.cos()], dim=-1), x), dim=-1)

        def forward(self, data: torch.Tensor) -> torch.Tensor:
            b, *axis, _ = data.shape
            places = [torch.linspace(-1.0, 1.0, steps=size, dtype=data.dtype) for size in axis]
            pos = self.fourier(torch.stack(torch.meshgrid(*places, indexing="ij"), dim=-1)).flatten(-2)
            data = torch.cat((data, pos.expand(b, *pos.shape)), dim=-1).flatten(1, -2)
            x = self.latents.expand(b, -1, -1)
            for cross, inner in self.layers:
                x = cross(x, context=data) + x
                x = inner(x) + x
            return self.head(x.mean(1))

    return Perceiver().eval(), image(2, 4, 4, 3)


@case("program capsules")
def make_capsules() -> Made:
    def squash(s, dim=-1):
        norm = s.square().sum(dim, keepdim=True)
        return norm / (1 + norm) * s / torch.sqrt(norm + 1e-8)

    class Capsules(nn.Module):
        def __init__(self, routes: int = 18, classes: int = 3) -> None:
            super().__init__()
            self.conv, self.primary = nn.Conv2d(1, 8, 3), nn.ModuleList([nn.Conv2d(8, 2, 3, 2) for _ in range(4)])
            self.W, self.routes = nn.Parameter(torch.randn(1, routes, classes, 6, 4)), routes

        def forward(self, x: torch.Tensor) -> tuple:
            x = F.relu(self.conv(x))
            u = torch.stack([c(x) for c in self.primary], dim=1).view(x.size(0), 4, -1).transpose(1, 2)
            u = squash(u)
            u_hat = torch.matmul(torch.cat([self.W] * x.size(0)), u.unsqueeze(2).repeat(1, 1, 3, 1).unsqueeze(4))
            b_ij = torch.zeros(1, self.routes, 3, 1, dtype=x.dtype)
            for iteration in range(3):
                c_ij = torch.cat([F.softmax(b_ij, dim=1)] * x.size(0), dim=0).unsqueeze(4)
                v_j = squash((c_ij * u_hat).sum(dim=1, keepdim=True), dim=3)
                if iteration < 2:
                    a_ij = torch.matmul(u_hat.transpose(3, 4), torch.cat([v_j] * self.routes, dim=1))
                    b_ij = b_ij + a_ij.squeeze(4).mean(dim=0, keepdim=True)
            v = v_j.squeeze(1).squeeze(-1)
            classes = (v**2).sum(-1) ** 0.5
            return classes, torch.eye(3, dtype=x.dtype).index_select(0, classes.max(1)[1])

    return Capsules().eval(), image(2, 1, 9, 9)


@case("program hypernetwork")
def make_hypernetwork() -> Made:
    class Hyper(nn.Module):
        shapes = ((8, 4), (8,), (2, 8), (2,))

        def __init__(self) -> None:
            super().__init__()
            self.sizes = [math.prod(s) for s in self.shapes]
            self.net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, sum(self.sizes)))

        def forward(self, x: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
            w1, b1, w2, b2 = (p.view(s) for p, s in zip(self.net(task).split(self.sizes), self.shapes, strict=True))
            h = F.linear(x, w1, b1).relu()
            names = ("weight", "bias")
            linear = nn.Linear.__new__(nn.Linear)
            nn.Module.__init__(linear)
            linear.in_features, linear.out_features = 8, 2
            return torch.func.functional_call(self.inner, dict(zip(names, (w2, b2), strict=True)), (h,))

        inner = nn.Linear(8, 2)

    return Hyper().eval(), drawn((3, 4), (5,))


# ---- adapters, numbers of few bits


@case("program lora")
def make_lora() -> Made:
    class LoRA(nn.Module):
        def __init__(self, base: nn.Linear, rank: int = 2, alpha: float = 4.0) -> None:
            super().__init__()
            self.base, self.scaling, self.merged = base, alpha / rank, False
            base.weight.requires_grad = False
            self.A = nn.Parameter(torch.randn(rank, base.in_features) / 4)
            self.B = nn.Parameter(torch.randn(base.out_features, rank) / 4)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.merged:
                return self.base(x)
            return self.base(x) + (self.dropout(x) @ self.A.T @ self.B.T) * self.scaling

    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)))

    def inject(module: nn.Module) -> None:
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, LoRA(child))
            else:
                inject(child)

    inject(net)
    return net.eval(), drawn((5, 6))


@case("program int8 weights")
def make_int8() -> Made:
    class Int8(nn.Module):
        def __init__(self, linear: nn.Linear, group: int = 4) -> None:
            super().__init__()
            w = linear.weight.data.view(linear.out_features, -1, group)
            scale = w.abs().amax(-1, keepdim=True) / 127
            self.register_buffer("q", (w / scale).round().clamp(-128, 127).to(torch.int8))
            self.register_buffer("scale", scale)
            self.bias, self.shape = linear.bias, linear.weight.shape

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(x, (self.q.to(x.dtype) * self.scale).view(self.shape), self.bias)

    return nn.Sequential(Int8(nn.Linear(8, 16)), nn.GELU(), Int8(nn.Linear(16, 4))).eval(), drawn((5, 8))


@case("program packed int4")
def make_int4() -> Made:
    class Int4(nn.Module):
        def __init__(self, n_in: int, n_out: int) -> None:
            super().__init__()
            self.register_buffer("packed", torch.randint(0, 256, (n_out, n_in // 2), dtype=torch.uint8))
            self.register_buffer("zero", torch.randint(0, 16, (n_out, 1), dtype=torch.uint8))
            self.register_buffer("scale", torch.rand(n_out, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            low, high = self.packed & 0xF, self.packed >> 4
            w = torch.stack((low, high), dim=-1).view(self.packed.shape[0], -1)
            return x @ ((w.to(torch.int8) - self.zero.to(torch.int8)).to(x.dtype) * self.scale).t()

    return nn.Sequential(Int4(8, 16), nn.SiLU(), Int4(16, 4)).eval(), drawn((5, 8))


@case("program straight-through")
def make_straight() -> Made:
    """Fake quantisation with observers, and binary weights by an autograd.Function."""

    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sign()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x.abs() <= 1)

    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.head = nn.Parameter(torch.randn(8, 6)), nn.Linear(8, 2)
            self.register_buffer("low", torch.tensor(0.0))
            self.register_buffer("high", torch.tensor(0.0))

        def fake(self, x):
            if self.training:
                self.low.copy_(torch.minimum(self.low, x.detach().amin()))
                self.high.copy_(torch.maximum(self.high, x.detach().amax()))
            scale = ((self.high - self.low) / 255).clamp(min=1e-4)
            zero = (-self.low / scale).round()
            q = ((x / scale + zero).round().clamp(0, 255) - zero) * scale
            return x + (q - x).detach()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.fake(F.linear(x, Sign.apply(self.weight))).relu())

    return Quantised().eval(), drawn((5, 6))
