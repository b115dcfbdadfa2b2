"""Programs for bench/zoo.py in the manner of well-known research code, written by hand: nothing is installed for them."""

from __future__ import annotations

import collections
import copy
import dataclasses
import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, image, tokens


def drawn(*shapes: tuple[int, ...]) -> Any:
    """Arguments of these shapes, drawn anew by the number of the call."""

    def inputs(number: int) -> tuple:
        generator = torch.Generator().manual_seed(number)
        return tuple(torch.randn(*shape, generator=generator) for shape in shapes)

    return inputs


# ---- recommendation, physics


@case("program dlrm")
def make_dlrm() -> Made:
    class Interaction(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = nn.ModuleList(nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3))
            self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

        def forward(self, dense: torch.Tensor, offsets: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            x = self.bottom(dense)
            ly = [bag(indices[k], offsets[k]) for k, bag in enumerate(self.bags)]
            (batch, d) = x.shape
            T = torch.cat([x, *ly], dim=1).view((batch, -1, d))
            Z = torch.bmm(T, torch.transpose(T, 1, 2))
            _, ni, nj = Z.shape
            li = torch.tensor([i for i in range(ni) for j in range(i)])
            lj = torch.tensor([j for i in range(nj) for j in range(i)])
            return self.top(torch.cat([x, Z[:, li, lj]], dim=1)).clamp(1e-3, 1 - 1e-3)

    def inputs(number: int) -> tuple:
        g = torch.Generator().manual_seed(number)
        offsets = torch.arange(0, 12, 3).repeat(3, 1)
        return torch.randn(4, 4, generator=g), offsets, torch.randint(0, 20, (3, 12), generator=g)

    return Interaction().eval(), inputs


@case("program lennard_jones")
def make_lennard_jones() -> Made:
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))

    def energy(r: torch.Tensor) -> torch.Tensor:
        norm = torch.norm(r, dim=1).reshape(-1, 1)
        return net(1 / norm) - 4 * ((1 / norm) ** 12 - (1 / norm) ** 6)

    return energy, lambda number: (image(32, 3)(number)[0].abs() + 0.5,)


@case("program equation_of_state")
def make_equation_of_state() -> Made:
    def gsw_dHdT(sa: torch.Tensor, ct: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        v01, v02, v05 = 9.998420897506056e2, 2.839940833161907e0, -6.698001071123802e0
        t1, t2 = v05 * ct, v02 + 0.5 * ct
        with_root = torch.sqrt(sa.clamp(min=0))
        v08 = torch.zeros_like(sa)
        v08[...] = v01 + ct * (t2 + ct * (t1 - 0.02 * ct)) + sa * (0.7 + ct * 0.003)
        v12 = v08 + with_root * sa * (1e-3 - 2e-4 * ct)
        for k in range(3):
            v12 = v12 + p ** (k + 1) * 1e-4 / math.factorial(k + 1)
        return (1e5 / v12).where(v12.abs() > 1, torch.full_like(v12, float("nan")))

    return gsw_dHdT, drawn((4, 4, 6), (4, 4, 6), (1, 1, 6))


@case("program isoneutral_mixing")
def make_isoneutral_mixing() -> Made:
    def mixing(maskT: torch.Tensor, temp: torch.Tensor, dzt: torch.Tensor) -> tuple:
        K11 = torch.zeros_like(temp)
        Ai = torch.zeros(*temp.shape, 2, 2, dtype=temp.dtype)
        drho = temp - 0.5 * temp.roll(1, 0)
        for kr in range(2):
            ki = 0 if kr == 1 else 1
            sumz = torch.zeros_like(temp[1:-2])
            for ip in range(2):
                drodxe = drho[1 + ip : -2 + ip, :, ki:]
                drodze = temp[1:-2, :, : drodxe.shape[-1]] - drodxe
                taper = 0.5 * (1.0 + torch.tanh((-torch.abs(drodxe / (drodze.abs() + 1)) + 4e-3) / 1e-3))
                sumz[..., ki:] += dzt[ki:] * torch.maximum(torch.tensor(0.1), taper)
                Ai[1:-2, :, ki:, ip, kr] = taper * maskT[1:-2, :, ki:]
            K11[1:-2] = K11[1:-2] + sumz / 4.0
        K11[-1, :, :] = 0.0
        return Ai, K11

    return mixing, lambda number: (torch.ones(6, 4, 5), *drawn((6, 4, 5), (5,))(number))


# ---- speech, language


class Additive(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.query, self.memory, self.v = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, 1)
        self.location = nn.Conv1d(2, size, 3, padding=1)
        self.mask_value = -float("inf")

    def forward(self, query, memory, weights, mask=None):
        place = self.location(weights).transpose(1, 2)
        energies = self.v(torch.tanh(self.query(query.unsqueeze(1)) + self.memory(memory) + place)).squeeze(-1)
        if mask is not None:
            energies.data.masked_fill_(mask, self.mask_value)
        alpha = F.softmax(energies, dim=1)
        return torch.bmm(alpha.unsqueeze(1), memory).squeeze(1), alpha


@case("program tacotron")
def make_tacotron() -> Made:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prenet = nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 8)])
            self.rnn, self.attention = nn.LSTMCell(16, 8), Additive(8)
            self.out, self.gate = nn.Linear(16, 4), nn.Linear(16, 1)

        def initialize(self, memory, mask):
            b, t = memory.size(0), memory.size(1)
            self.hidden = memory.new_zeros(b, 8)
            self.cell = memory.new_zeros(b, 8)
            self.weights, self.cumulated = memory.new_zeros(b, t), memory.new_zeros(b, t)
            self.context, self.memory, self.mask = memory.new_zeros(b, 8), memory, mask

        def decode(self, step):
            self.hidden, self.cell = self.rnn(torch.cat((step, self.context), -1), (self.hidden, self.cell))
            both = torch.cat((self.weights.unsqueeze(1), self.cumulated.unsqueeze(1)), dim=1)
            self.context, self.weights = self.attention(self.hidden, self.memory, both, self.mask)
            self.cumulated += self.weights
            state = torch.cat((self.hidden, self.context), dim=1)
            return self.out(state), self.gate(state), self.weights

        def forward(self, memory, targets, lengths):
            ids = torch.arange(0, memory.size(1), out=torch.LongTensor(memory.size(1)))
            self.initialize(memory, mask=~(ids < lengths.unsqueeze(1)))
            frames = torch.cat((memory.new_zeros(1, memory.size(0), 4), targets.permute(1, 0, 2)))
            for layer in self.prenet:
                frames = F.dropout(F.relu(layer(frames)), 0.5, self.training)
            outputs, gates, alignments = [], [], []
            while len(outputs) < frames.size(0) - 1:
                mel, gate, alignment = self.decode(frames[len(outputs)])
                outputs += [mel.squeeze(1)]
                gates += [gate.squeeze(1)]
                alignments += [alignment]
            return torch.stack(outputs).transpose(0, 1).contiguous(), torch.stack(gates), torch.stack(alignments)

    return Decoder().eval(), lambda number: (*drawn((2, 6, 8), (2, 4, 4))(number), torch.tensor([6, 4]))


@case("program lstm language model")
def make_lstm() -> Made:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.rnn = nn.Embedding(50, 16), nn.LSTM(16, 16, 2, dropout=0.2)
            self.head = nn.Linear(16, 50)
            self.head.weight = self.embed.weight

        def init_hidden(self, batch):
            weight = next(self.parameters())
            return weight.new_zeros(2, batch, 16), weight.new_zeros(2, batch, 16)

        def forward(self, ids, hidden=None):
            hidden = self.init_hidden(ids.size(1)) if hidden is None else tuple(h.detach() for h in hidden)
            out, hidden = self.rnn(self.embed(ids), hidden)
            return F.log_softmax(self.head(out).view(-1, 50), dim=1), hidden

    return Model().eval(), lambda number: (tokens(50, 7)(number)[0].t().repeat(1, 3),)


@case("program packed lstm")
def make_packed() -> Made:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)

        def forward(self, x, lengths: list[int]):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, h = self.rnn(packed)
            out, sizes = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
            return out + h.mean(), sizes

    return Model().eval(), lambda number: (image(3, 5, 8)(number)[0], [3, 5, 2])


@case("program speech transformer")
def make_speech() -> Made:
    def pad_mask(x, lengths):
        mask = x.new_ones(x.size()[:-1])
        for i in range(x.size(0)):
            mask[i, lengths[i] :] = 0
        return mask.unsqueeze(-1)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.proj, self.norm = nn.Linear(10, 16), nn.LayerNorm(16)
            pe = torch.zeros(20, 16)
            position = torch.arange(0, 20).unsqueeze(1).float()
            div = torch.exp(torch.arange(0, 16, 2).float() * -(math.log(10000.0) / 16))
            pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div), torch.cos(position * div)
            self.register_buffer("pe", pe.unsqueeze(0))
            self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

        def forward(self, x, lengths: list[int], return_attns=False):
            attns = []
            keep = pad_mask(x, lengths)
            expand = keep.squeeze(-1).lt(1).unsqueeze(1).expand(-1, x.size(1), -1).repeat(2, 1, 1)
            out = self.norm(self.proj(x)) + self.pe[:, : x.size(1)]
            q, k, v = (
                f(out).view(2, -1, 2, 8).permute(2, 0, 1, 3).contiguous().view(-1, x.size(1), 8)
                for f in (self.q, self.k, self.v)
            )
            attn = torch.bmm(q, k.transpose(1, 2)) / 8**0.5
            attn = attn.masked_fill(expand, -float("inf")).softmax(2)
            if return_attns:
                attns += [attn]
            out = torch.bmm(attn, v).view(2, 2, -1, 8).permute(1, 2, 0, 3).reshape(2, x.size(1), -1)
            out *= keep
            return (out, attns) if return_attns else (out,)

    return Encoder().eval(), lambda number: (image(2, 6, 10)(number)[0], [6, 4])


@case("program nanogpt")
def make_nanogpt() -> Made:
    @dataclasses.dataclass
    class Config:
        block: int = 16
        vocab: int = 50
        layers: int = 2
        heads: int = 2
        size: int = 16

    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.c, self.ln1, self.ln2 = c, nn.LayerNorm(c.size), nn.LayerNorm(c.size)
            self.attn, self.proj = nn.Linear(c.size, 3 * c.size), nn.Linear(c.size, c.size)
            self.mlp = nn.ModuleDict({"fc": nn.Linear(c.size, 32), "proj": nn.Linear(32, c.size)})
            self.flash = hasattr(F, "scaled_dot_product_attention")

        def forward(self, x):
            B, T, C = x.size()
            q, k, v = self.attn(self.ln1(x)).split(self.c.size, dim=2)
            q, k, v = (t.view(B, T, self.c.heads, C // self.c.heads).transpose(1, 2) for t in (q, k, v))
            if self.flash:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
            return x + self.mlp["proj"](F.gelu(self.mlp.fc(self.ln2(x))))

    class GPT(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.config = c
            self.transformer = nn.ModuleDict(
                dict(
                    wte=nn.Embedding(c.vocab, c.size),
                    wpe=nn.Embedding(c.block, c.size),
                    h=nn.ModuleList([Block(c) for _ in range(c.layers)]),
                    ln_f=nn.LayerNorm(c.size),
                )
            )
            self.lm_head = nn.Linear(c.size, c.vocab, bias=False)
            self.transformer.wte.weight = self.lm_head.weight

        def forward(self, idx, targets=None):
            b, t = idx.size()
            assert t <= self.config.block, f"Cannot forward sequence of length {t}"
            x = self.transformer.wte(idx) + self.transformer.wpe(torch.arange(0, t, device=idx.device))
            for block in self.transformer.h:
                x = block(x)
            x = self.transformer.ln_f(x)
            if targets is None:
                return self.lm_head(x[:, [-1], :]), None
            logits = self.lm_head(x)
            return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    return GPT(Config()).eval(), lambda number: (tokens(50, 8)(number)[0], tokens(50, 8)(number + 50)[0])


@case("program generate")
def make_generate() -> Made:
    torch.manual_seed(1)
    embed, rnn, head = nn.Embedding(20, 8), nn.GRUCell(8, 8), nn.Linear(8, 20)

    def generate(ids, steps=5, top_k=4, temperature=0.8):
        h = torch.zeros(ids.size(0), 8)
        for t in range(ids.size(1)):
            h = rnn(embed(ids[:, t]), h)
        for _ in range(steps):
            logits = head(h) / temperature
            v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
            logits[logits < v[:, [-1]]] = -float("Inf")
            idx = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            ids = torch.cat((ids, idx), dim=1)
            h = rnn(embed(idx.squeeze(1)), h)
        return ids

    return generate, lambda number: (tokens(20, 4)(number)[0],)


@case("program beam search")
def make_beam() -> Made:
    torch.manual_seed(1)
    table = torch.randn(12, 12)

    class Hypothesis(NamedTuple):
        ids: list
        score: torch.Tensor

    def search(start: torch.Tensor) -> tuple:
        beams = [Hypothesis([int(0)], start.sum() * 0)]
        for _ in range(3):
            grown = []
            for beam in beams:
                scores = F.log_softmax(table[beam.ids[-1]] + start, -1)
                for index in (1, 2):
                    grown.append(Hypothesis([*beam.ids, index], beam.score + scores[index]))
            beams = grown[:3]
        return [b.ids for b in beams], torch.stack([b.score for b in beams])

    return search, drawn((12,))


# ---- vision


@case("program yolo head")
def make_yolo() -> Made:
    class Detect(nn.Module):
        stride = torch.tensor([8.0, 16.0])
        dynamic, export = False, False

        def __init__(self) -> None:
            super().__init__()
            self.nc, self.na, self.no = 3, 2, 8
            self.grid = [torch.empty(0) for _ in range(2)]
            self.anchor_grid = [torch.empty(0) for _ in range(2)]
            self.register_buffer("anchors", torch.rand(2, 2, 2))
            self.m = nn.ModuleList(nn.Conv2d(c, self.no * self.na, 1) for c in (8, 16))

        def _make_grid(self, nx=20, ny=20, i=0):
            d, t = self.anchors[i].device, self.anchors[i].dtype
            shape = 1, self.na, ny, nx, 2
            y, x = torch.arange(ny, device=d, dtype=t), torch.arange(nx, device=d, dtype=t)
            yv, xv = torch.meshgrid(y, x, indexing="ij")
            grid = torch.stack((xv, yv), 2).expand(shape) - 0.5
            return grid, (self.anchors[i] * self.stride[i]).view((1, self.na, 1, 1, 2)).expand(shape)

        def forward(self, *xs):
            x, z = list(xs), []
            for i in range(2):
                x[i] = self.m[i](x[i])
                bs, _, ny, nx = x[i].shape
                x[i] = x[i].view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
                if not self.training:
                    if self.dynamic or self.grid[i].shape[2:4] != x[i].shape[2:4]:
                        self.grid[i], self.anchor_grid[i] = self._make_grid(nx, ny, i)
                    xy, wh, conf = x[i].sigmoid().split((2, 2, self.nc + 1), 4)
                    xy = (xy * 2 + self.grid[i]) * self.stride[i]
                    wh = (wh * 2) ** 2 * self.anchor_grid[i]
                    z.append(torch.cat((xy, wh, conf), 4).view(bs, self.na * nx * ny, self.no))
            return x if self.training else (torch.cat(z, 1),) if self.export else (torch.cat(z, 1), x)

    return Detect().eval(), drawn((1, 8, 6, 6), (1, 16, 3, 3))


@case("program nms")
def make_nms() -> Made:
    def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float = 0.3) -> torch.Tensor:
        x1, y1 = boxes[:, 0], boxes[:, 1]
        x2, y2 = x1 + boxes[:, 2].abs() + 0.5, y1 + boxes[:, 3].abs() + 0.5
        areas = (x2 - x1) * (y2 - y1)
        order = scores.sort(descending=True)[1]
        keep = []
        while order.numel() > 0:
            i = order[0]
            keep.append(i)
            if order.numel() == 1:
                break
            xx1, yy1 = x1[order[1:]].clamp(min=x1[i].item()), y1[order[1:]].clamp(min=y1[i].item())
            xx2, yy2 = x2[order[1:]].clamp(max=x2[i].item()), y2[order[1:]].clamp(max=y2[i].item())
            inter = (xx2 - xx1).clamp(min=0) * (yy2 - yy1).clamp(min=0)
            iou = inter / (areas[i] + areas[order[1:]] - inter)
            ids = (iou <= threshold).nonzero().squeeze(1)
            if ids.numel() == 0:
                break
            order = order[ids + 1]
        return torch.stack(keep)

    return nms, drawn((8, 4), (8,))


@case("program non-maximum by fixed count")
def make_fixed_nms() -> Made:
    def nms(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs()], 1)
        order = scores.argsort(descending=True)
        corners = corners[order]
        tl = torch.max(corners[:, None, :2], corners[None, :, :2])
        br = torch.min(corners[:, None, 2:], corners[None, :, 2:])
        inter = (br - tl).clamp(min=0).prod(-1)
        area = (corners[:, 2:] - corners[:, :2]).prod(-1)
        iou = inter / (area[:, None] + area - inter)
        keep = torch.ones(len(boxes), dtype=torch.bool)
        for i in range(len(boxes)):
            keep = keep & ~(keep[i] & (iou[i] > 0.3) & (torch.arange(len(boxes)) > i))
        return order, keep

    return nms, drawn((8, 4), (8,))


@case("program super-slomo warp")
def make_warp() -> Made:
    class Warp(nn.Module):
        def __init__(self, w: int, h: int) -> None:
            super().__init__()
            import numpy

            x, y = numpy.meshgrid(numpy.arange(w), numpy.arange(h))
            self.W, self.H = w, h
            self.register_buffer("gridX", torch.tensor(x, requires_grad=False))
            self.register_buffer("gridY", torch.tensor(y, requires_grad=False))

        def forward(self, img, flow):
            u, v = flow[:, 0, :, :], flow[:, 1, :, :]
            x = self.gridX.unsqueeze(0).expand_as(u).float() + u
            y = self.gridY.unsqueeze(0).expand_as(v).float() + v
            grid = torch.stack((2 * (x / self.W - 0.5), 2 * (y / self.H - 0.5)), dim=3)
            warped = F.grid_sample(img, grid, align_corners=False)
            t = torch.linspace(0.125, 0.875, 7)
            ind = [1, 3]
            c = -(1 - t[ind]) * t[ind]
            return warped * c[0] + warped * c[1][None, None, None, None]

    return Warp(8, 6), drawn((2, 3, 6, 8), (2, 2, 6, 8))


@case("program unet")
def make_unet() -> Made:
    class Up(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.up, self.conv = nn.ConvTranspose2d(i, i // 2, 2, 2), nn.Conv2d(i, o, 3, padding=1)

        def forward(self, x1, x2):
            x1 = self.up(x1)
            dy, dx = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
            x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            return F.relu(self.conv(torch.cat([x2, x1], dim=1)), inplace=True)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inc = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
            self.downs = nn.ModuleList([nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)])
            self.ups = nn.ModuleList([Up(32, 16), Up(16, 8)])
            self.out = nn.Conv2d(8, 2, 1)

        def forward(self, x):
            skips = [self.inc(x)]
            for down in self.downs:
                skips.append(F.relu_(down(F.max_pool2d(skips[-1], 2))))
            x = skips.pop()
            for up, skip in zip(self.ups, reversed(skips), strict=True):
                x = up(x, skip)
            return self.out(x)

    return UNet().eval(), image(1, 3, 18, 22)


@case("program moco")
def make_moco() -> Made:
    class MoCo(nn.Module):
        def __init__(self, K=16, m=0.9, T=0.07):
            super().__init__()
            self.K, self.m, self.T = K, m, T
            self.encoder_q = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
            self.encoder_k = copy.deepcopy(self.encoder_q)
            for p in self.encoder_k.parameters():
                p.requires_grad = False
            self.register_buffer("queue", F.normalize(torch.randn(4, K), dim=0))
            self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

        @torch.no_grad()
        def _momentum_update_key_encoder(self):
            for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=True):
                k.data = k.data * self.m + q.data * (1.0 - self.m)

        @torch.no_grad()
        def _dequeue_and_enqueue(self, keys):
            batch = keys.shape[0]
            ptr = int(self.queue_ptr)
            self.queue[:, ptr : ptr + batch] = keys.T
            self.queue_ptr[0] = (ptr + batch) % self.K

        def forward(self, im_q, im_k):
            q = F.normalize(self.encoder_q(im_q), dim=1)
            with torch.no_grad():
                self._momentum_update_key_encoder()
                k = F.normalize(self.encoder_k(im_k), dim=1)
            l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
            l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
            logits = torch.cat([l_pos, l_neg], dim=1) / self.T
            labels = torch.zeros(logits.shape[0], dtype=torch.long)
            self._dequeue_and_enqueue(k)
            return logits, labels

    model = MoCo()
    twin = copy.deepcopy(model.state_dict())

    class Fresh(nn.Module):
        """Each call begins with the same state: eager and compiled calls are made in turns."""

        def __init__(self) -> None:
            super().__init__()
            self.moco = model

        def forward(self, a, b):
            self.moco.load_state_dict(twin)
            return self.moco(a, b)

    return model if False else Fresh(), drawn((4, 8), (4, 8))


@case("program vq-vae")
def make_vq() -> Made:
    class Quantizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.codes = nn.Embedding(12, 4)

        def forward(self, z):
            z = z.permute(0, 2, 3, 1).contiguous()
            flat = z.view(-1, 4)
            d = (
                flat.pow(2).sum(1, keepdim=True)
                + self.codes.weight.pow(2).sum(1)
                - 2 * flat @ self.codes.weight.t()
            )
            idx = torch.argmin(d, dim=1).unsqueeze(1)
            onehot = torch.zeros(idx.shape[0], 12).scatter_(1, idx, 1)
            q = (onehot @ self.codes.weight).view(z.shape)
            loss = F.mse_loss(q.detach(), z) + 0.25 * F.mse_loss(q, z.detach())
            q = z + (q - z).detach()
            p = onehot.mean(0)
            return loss, q.permute(0, 3, 1, 2).contiguous(), torch.exp(-torch.sum(p * torch.log(p + 1e-10))), idx

    return Quantizer().eval(), image(2, 4, 4, 4)


@case("program nerf")
def make_nerf() -> Made:
    net = nn.Sequential(nn.Linear(15, 16), nn.ReLU(), nn.Linear(16, 4))

    def encoding(x):
        parts = [x]
        for k in range(2):
            for fn in [torch.sin, torch.cos]:
                parts.append(fn((2.0**k) * x))
        return torch.cat(parts, -1)

    def render(origins, directions, near=0.1, far=2.0, count=6):
        depth = torch.linspace(near, far, count).to(origins)
        points = origins[..., None, :] + directions[..., None, :] * depth[:, None]
        raw = torch.cat([net(c) for c in torch.split(encoding(points.reshape(-1, 3)), 8)]).view(
            *points.shape[:-1], 4
        )
        sigma, rgb = F.relu(raw[..., 3]), raw[..., :3].sigmoid()
        dists = torch.cat([depth[1:] - depth[:-1], torch.tensor([1e10])])
        alpha = 1.0 - torch.exp(-sigma * dists)
        weights = (
            alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[..., :1]), 1 - alpha + 1e-10], -1), -1)[..., :-1]
        )
        return {"rgb": (weights[..., None] * rgb).sum(-2), "depth": (weights * depth).sum(-1)}

    return render, drawn((5, 3), (5, 3))


# ---- learning to act, meta-learning, functorch


@case("program actor-critic")
def make_actor_critic() -> Made:
    Saved = collections.namedtuple("Saved", ["log_prob", "value"])

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.affine, self.action, self.value = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 1)
            self.saved, self.rewards = [], []

        def forward(self, states):
            self.saved, self.rewards = [], []
            for k, x in enumerate(states):
                x = F.relu(self.affine(x))
                m = torch.distributions.Categorical(F.softmax(self.action(x), dim=-1))
                action = torch.tensor(k % 2)
                self.saved.append(Saved(m.log_prob(action), self.value(x)))
                self.rewards.append(1.0 / (k + 1))
            R, returns, policy, values = 0, [], [], []
            for r in self.rewards[::-1]:
                R = r + 0.99 * R
                returns.insert(0, R)
            returns = torch.tensor(returns)
            returns = (returns - returns.mean()) / (returns.std() + 1e-8)
            for (log_prob, value), R in zip(self.saved, returns, strict=True):
                advantage = R - value
                policy.append(-log_prob * advantage)
                values.append(F.smooth_l1_loss(value, torch.tensor([R])))
            return torch.stack(policy).sum() + torch.stack(values).sum()

    return Policy().eval(), drawn((4, 4))


@case("program soft actor-critic")
def make_sac() -> Made:
    from torch import distributions as pyd

    class TanhTransform(pyd.transforms.Transform):
        domain, codomain, bijective, sign = pyd.constraints.real, pyd.constraints.interval(-1.0, 1.0), True, +1

        def __init__(self, cache_size=1):
            super().__init__(cache_size=cache_size)

        @staticmethod
        def atanh(x):
            return 0.5 * (x.log1p() - (-x).log1p())

        def __eq__(self, other):
            return isinstance(other, TanhTransform)

        def _call(self, x):
            return x.tanh()

        def _inverse(self, y):
            return self.atanh(y)

        def log_abs_det_jacobian(self, x, y):
            return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))

    class Squashed(pyd.transformed_distribution.TransformedDistribution):
        def __init__(self, loc, scale):
            self.loc, self.scale = loc, scale
            super().__init__(pyd.Normal(loc, scale), [TanhTransform()])

        @property
        def mean(self):
            mu = self.loc
            for tr in self.transforms:
                mu = tr(mu)
            return mu

    trunk = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6)).eval()

    def act(obs):
        mu, log_std = trunk(obs).chunk(2, dim=-1)
        log_std = -5 + 0.5 * (2 + 5) * (torch.tanh(log_std) + 1)
        dist = Squashed(mu, log_std.exp())
        action = dist.rsample()
        return action, dist.log_prob(action).sum(-1, keepdim=True), dist.mean

    return act, drawn((5, 4))


@case("program maml")
def make_maml() -> Made:
    from torch.func import functional_call, grad

    net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1)).eval()
    weights = {k: v.detach() for k, v in net.named_parameters()}

    def adapt(x, y, qx, qy):
        def loss(params, a, b):
            return F.mse_loss(functional_call(net, params, (a,)), b)

        def task(x, y, qx, qy):
            gs = grad(loss)(weights, x, y)
            updated = {k: weights[k] - 0.1 * gs[k] for k in weights}
            return loss(updated, qx, qy)

        return torch.vmap(task)(x, y, qx, qy)

    return adapt, drawn((3, 5, 1), (3, 5, 1), (3, 5, 1), (3, 5, 1))


@case("program per-sample gradients")
def make_per_sample() -> Made:
    from torch.func import functional_call, grad, vmap

    net = nn.Linear(4, 3).eval()
    params = {k: v.detach() for k, v in net.named_parameters()}

    def gradients(x, y):
        def loss(p, a, b):
            return F.cross_entropy(functional_call(net, p, (a.unsqueeze(0),)), b.unsqueeze(0))

        return vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y.abs().long() % 3)

    return gradients, drawn((5, 4), (5,))


@case("program hessian")
def make_hessian() -> Made:
    from torch.func import hessian, jacrev, jvp

    def f(x):
        energy = lambda z: (z.sin() * z.cumsum(0)).sum()  # noqa: E731
        return hessian(energy)(x), jacrev(torch.tanh)(x), jvp(energy, (x,), (torch.ones_like(x),))[1]

    return f, drawn((4,))


@case("program ensembled")
def make_ensemble() -> Made:
    from torch.func import functional_call, stack_module_state, vmap

    nets = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).eval() for _ in range(3)]
    params, buffers = stack_module_state(nets)
    params = {k: v.detach() for k, v in params.items()}
    base = copy.deepcopy(nets[0])

    def f(x):
        return vmap(lambda p, b, a: functional_call(base, (p, b), (a,)), in_dims=(0, 0, None))(params, buffers, x)

    return f, drawn((5, 4))


# ---- registries, configurations, hooks: how frameworks are written


@case("program registry")
def make_registry() -> Made:
    registry: dict[str, type] = {}

    def register(name):
        def wrap(cls):
            registry[name] = cls
            return cls

        return wrap

    @register("linear")
    class L(nn.Linear):
        def forward(self, x, **kwargs):
            return super().forward(x) * kwargs.get("scale", 1.0)

    @register("norm")
    class N(nn.LayerNorm):
        def forward(self, x, **kwargs):
            return super().forward(x)

    class Pipeline(nn.Module):
        def __init__(self, *steps):
            super().__init__()
            for name, kwargs in steps:
                self.add_module(f"{name}_{len(self._modules)}", registry[name](**kwargs))
            self.features = {}
            for name, child in self.named_children():
                child.register_forward_hook(self.hook(name))

        def hook(self, name):
            def fn(_, args, output):
                self.features[name] = output.detach()

            return fn

        def forward(self, x, **kwargs):
            self.features.clear()
            for name, step in self.named_children():
                x = step(x, **kwargs) if not name.startswith("norm") else step(x)
            return {"out": x, **self.features}

    steps = (("linear", {"in_features": 4, "out_features": 4}), ("norm", {"normalized_shape": 4}))
    return Pipeline(*steps, *steps).eval(), drawn((3, 4))


@case("program config")
def make_config() -> Made:
    class AttrDict(dict):
        def __getattr__(self, key):
            try:
                return self[key]
            except KeyError as error:
                raise AttributeError(key) from error

        def __setattr__(self, key, value):
            self[key] = value

    class Head(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.cfg = cfg
            self.fc = nn.Linear(cfg.size, cfg.classes)

        def forward(self, batch):
            out = AttrDict(batch)
            out.logits = self.fc(out.x)
            if self.cfg.get("temperature") is not None:
                out.logits = out.logits / self.cfg.temperature
            match self.cfg.loss:
                case "ce":
                    out.loss = F.cross_entropy(out.logits, out.x.argmax(-1) % self.cfg.classes)
                case {"kind": kind}:
                    raise ValueError(kind)
            return {k: v for k, v in out.items() if k != "x"}

    config = AttrDict(size=6, classes=3, temperature=2.0, loss="ce")
    return Head(config).eval(), lambda number: ({"x": image(4, 6)(number)[0]},)


@case("program mixture of experts")
def make_moe() -> Made:
    class MoE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 4)
            self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

        def forward(self, x):
            weights, chosen = torch.topk(F.softmax(self.gate(x), -1), 2)
            weights /= weights.sum(dim=-1, keepdim=True)
            out = torch.zeros_like(x)
            mask = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)
            for k in range(4):
                out += self.experts[k](x) * (mask[k].T * weights).sum(-1, keepdim=True)
            return out

    return MoE().eval(), drawn((6, 8))


@case("program sparse mixture of experts")
def make_sparse_moe() -> Made:
    class MoE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 3)
            self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

        def forward(self, x):
            weights, chosen = torch.topk(F.softmax(self.gate(x), -1), 2)
            out = torch.zeros_like(x)
            for k, expert in enumerate(self.experts):
                batch, nth = torch.where(chosen == k)
                out[batch] += weights[batch, nth, None] * expert(x[batch])
            return out

    return MoE().eval(), drawn((6, 8))


@case("program tree lstm")
def make_tree() -> Made:
    class Tree:
        __slots__ = ("children", "index")

        def __init__(self, index, *children):
            self.index, self.children = index, children

    class ChildSum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.iou, self.f = nn.Linear(8, 12), nn.Linear(8, 4)

        def node(self, x, states):
            h = sum((h for h, _ in states), torch.zeros(4))
            i, o, u = self.iou(torch.cat([x, h])).chunk(3)
            c = i.sigmoid() * u.tanh()
            for h_k, c_k in states:
                c = c + self.f(torch.cat([x, h_k])).sigmoid() * c_k
            return o.sigmoid() * c.tanh(), c

        def visit(self, tree, xs):
            return self.node(xs[tree.index], [self.visit(child, xs) for child in tree.children])

        def forward(self, xs):
            return self.visit(Tree(0, Tree(1, Tree(3), Tree(4)), Tree(2)), xs)

    return ChildSum().eval(), drawn((5, 4))


@case("program flow")
def make_flow() -> Made:
    class Coupling(nn.Module):
        def __init__(self, flip):
            super().__init__()
            self.net, self.flip = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)), flip

        def forward(self, x, logdet, reverse=False):
            a, b = x.chunk(2, -1)[:: -1 if self.flip else 1]
            s, t = self.net(a).chunk(2, -1)
            s = s.tanh()
            b = (b - t) * (-s).exp() if reverse else b * s.exp() + t
            logdet = logdet + (-s if reverse else s).sum(-1)
            return torch.cat((b, a) if self.flip else (a, b), -1), logdet

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Coupling(k % 2 == 1) for k in range(3))
            self.register_buffer("loc", torch.zeros(4))
            self.register_buffer("scale", torch.ones(4))

        @property
        def base(self):
            return torch.distributions.Independent(torch.distributions.Normal(self.loc, self.scale), 1)

        def forward(self, x):
            logdet = x.new_zeros(x.shape[0])
            for layer in self.layers:
                x, logdet = layer(x, logdet)
            back, inverse = x, torch.zeros_like(logdet)
            for layer in reversed(self.layers):
                back, inverse = layer(back, inverse, reverse=True)
            return self.base.log_prob(x) + logdet, back

    return Flow().eval(), drawn((5, 4))


@case("program diffusion sampler")
def make_sampler() -> Made:
    net = nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.Linear(16, 4)).eval()
    betas = torch.linspace(1e-4, 0.02, 8)
    alphas = torch.cumprod(1 - betas, 0)

    def sample(x):
        for t in reversed(range(0, 8, 2)):
            steps = torch.full((x.shape[0],), t, dtype=torch.long)
            noise = net(torch.cat([x, steps[:, None] / 8.0], -1))
            a = alphas.gather(-1, steps).reshape(-1, *((1,) * (x.dim() - 1)))
            x0 = ((x - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-1, 1)
            x = a.sqrt() * x0 + (1 - a).sqrt() * noise
            if t > 0:
                x = x + betas[t].sqrt() * torch.randn_like(x)
        return x

    return sample, drawn((3, 4))


@case("program kalman filter")
def make_kalman() -> Made:
    def run(observations):
        F_, H = torch.tensor([[1.0, 1.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
        Q, R = torch.eye(2) * 0.01, torch.eye(1) * 0.1
        x, P, means = torch.zeros(2, 1), torch.eye(2), []
        for z in observations:
            x, P = F_ @ x, F_ @ P @ F_.T + Q
            S = H @ P @ H.T + R
            K = torch.linalg.solve(S, H @ P).T
            x = x + K @ (z.reshape(1, 1) - H @ x)
            P = (torch.eye(2) - K @ H) @ P
            means.append(x.squeeze(-1))
        return torch.stack(means), P

    return run, drawn((6,))


@case("program sinkhorn")
def make_sinkhorn() -> Made:
    def sinkhorn(x, y, eps=0.1, max_iter=10):
        C = torch.sum(torch.abs(x.unsqueeze(-2) - y.unsqueeze(-3)) ** 2, -1)
        mu, nu = (torch.empty(t.shape[-2]).fill_(1.0 / t.shape[-2]) for t in (x, y))
        u, v = torch.zeros_like(mu), torch.zeros_like(nu)
        M = lambda C, u, v: (-C + u.unsqueeze(-1) + v.unsqueeze(-2)) / eps  # noqa: E731
        for _ in range(max_iter):
            u1 = u
            u = eps * (torch.log(mu + 1e-8) - torch.logsumexp(M(C, u, v), dim=-1)) + u
            v = eps * (torch.log(nu + 1e-8) - torch.logsumexp(M(C, u, v).transpose(-2, -1), dim=-1)) + v
            err = (u - u1).abs().sum(-1).mean()
            if err.item() < 1e-1:
                break
        pi = torch.exp(M(C, u, v))
        return torch.sum(pi * C, dim=(-2, -1)), pi

    return sinkhorn, drawn((5, 2), (4, 2))


@case("program audio features")
def make_audio() -> Made:
    window = torch.hann_window(32)
    bank = torch.rand(17, 8)

    def features(wave):
        wave = wave - wave.mean()
        wave = torch.cat([wave[..., :1], wave[..., 1:] - 0.97 * wave[..., :-1]], -1)
        spec = torch.stft(wave, 32, 16, window=window, return_complex=True)
        power = spec.abs().pow(2.0)
        mel = torch.matmul(power.transpose(-1, -2), bank).transpose(-1, -2)
        db = 10.0 * torch.log10(torch.clamp(mel, min=1e-10))
        db = torch.max(db, db.amax((-2, -1), keepdim=True) - 80.0)
        delta = (
            F.conv1d(F.pad(db, (2, 2), mode="replicate"), torch.arange(-2.0, 3.0).repeat(8, 1, 1), groups=8) / 10
        )
        back = torch.istft(spec, 32, 16, window=window, length=wave.shape[-1])
        return db, delta, back

    return features, drawn((2, 160))


@case("program crf")
def make_crf() -> Made:
    class CRF(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start, self.end = nn.Parameter(torch.rand(4)), nn.Parameter(torch.rand(4))
            self.transitions = nn.Parameter(torch.rand(4, 4))

        def forward(self, emissions, tags, mask):
            T, B = tags.shape
            score = self.start[tags[0]] + emissions[0, torch.arange(B), tags[0]]
            for i in range(1, T):
                score = score + self.transitions[tags[i - 1], tags[i]] * mask[i]
                score = score + emissions[i, torch.arange(B), tags[i]] * mask[i]
            score += self.end[tags[mask.long().sum(dim=0) - 1, torch.arange(B)]]
            alpha = self.start + emissions[0]
            for i in range(1, T):
                following = torch.logsumexp(
                    alpha.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1), dim=1
                )
                alpha = torch.where(mask[i].unsqueeze(1).bool(), following, alpha)
            return (score - torch.logsumexp(alpha + self.end, dim=1)).mean()

    def inputs(number):
        g = torch.Generator().manual_seed(number)
        return (
            torch.randn(5, 2, 4, generator=g),
            torch.randint(0, 4, (5, 2), generator=g),
            torch.tensor([[1, 1], [1, 1], [1, 1], [1, 0], [1, 0]]),
        )

    return CRF().eval(), inputs


@case("program viterbi")
def make_viterbi() -> Made:
    transitions = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))

    def decode(emissions):
        score, history = emissions[0], []
        for i in range(1, emissions.size(0)):
            best, indices = (score.unsqueeze(1) + transitions + emissions[i].unsqueeze(0)).max(dim=0)
            score = best
            history.append(indices)
        _, last = score.max(dim=0)
        tags = [last.item()]
        for hist in reversed(history):
            tags.append(hist[tags[-1]].item())
        tags.reverse()
        return tags, score

    return decode, drawn((6, 4))


@case("program message passing")
def make_gnn() -> Made:
    class Block(NamedTuple):
        src: torch.Tensor
        dst: torch.Tensor
        count: int

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.self_, self.neigh, self.attn = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(8, 1)

        def forward(self, graph, h):
            m = h[graph.src]
            e = F.leaky_relu(self.attn(torch.cat([m, h[graph.dst]], -1)), 0.2)
            e = (e - torch.full((graph.count, 1), -1e9).index_reduce(0, graph.dst, e, "amax")[graph.dst]).exp()
            total = torch.zeros(graph.count, 1).index_add_(0, graph.dst, e)
            out = torch.zeros(graph.count, 4).scatter_add_(0, graph.dst[:, None].expand(-1, 4), m * e)
            degree = torch.bincount(graph.dst, minlength=graph.count).clamp(min=1)
            return self.self_(h) + self.neigh(out / total.clamp(min=1e-9)) / degree[:, None]

    layer = Layer().eval()
    graph = Block(torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([1, 2, 3, 4, 0, 2]), 5)
    return lambda h: layer(graph, layer(graph, h)), drawn((5, 4))


@case("program torchvision-like transforms")
def make_transforms() -> Made:
    class Compose:
        def __init__(self, transforms):
            self.transforms = transforms

        def __call__(self, img):
            for t in self.transforms:
                img = t(img)
            return img

    class Normalize(nn.Module):
        def __init__(self, mean, std, inplace=False):
            super().__init__()
            self.mean, self.std, self.inplace = mean, std, inplace

        def forward(self, tensor):
            if not self.inplace:
                tensor = tensor.clone()
            mean = torch.as_tensor(self.mean, dtype=tensor.dtype, device=tensor.device)
            std = torch.as_tensor(self.std, dtype=tensor.dtype, device=tensor.device)
            if (std == 0).any():
                raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}")
            return tensor.sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))

    def center_crop(img, size=(6, 6)):
        h, w = img.shape[-2:]
        top, left = int(round((h - size[0]) / 2.0)), int(round((w - size[1]) / 2.0))
        return img[..., top : top + size[0], left : left + size[1]]

    pipeline = Compose([center_crop, Normalize([0.5, 0.4, 0.3], (0.2, 0.3, 0.2)), lambda x: x.flip(-1), torch.relu])
    return lambda x: pipeline(x), image(3, 9, 8)


@case("program roi pool")
def make_roi() -> Made:
    def pool(features, boxes):
        out = []
        for box in boxes.tolist():
            x1, y1, x2, y2 = (int(v) for v in box)
            out.append(F.adaptive_max_pool2d(features[:, y1 : y2 + 1, x1 : x2 + 1], 2))
        return torch.stack(out)

    return pool, lambda number: (image(3, 8, 8)(number)[0], torch.tensor([[0.0, 1, 4, 5], [2, 2, 7, 7]]))


@case("program spectral norm")
def make_spectral() -> Made:
    net = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)),
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)),
    )
    return net.eval(), drawn((3, 6))


@case("program ema")
def make_ema() -> Made:
    class EMA(nn.Module):
        def __init__(self, model, decay=0.9):
            super().__init__()
            self.module, self.decay = copy.deepcopy(model).eval(), decay

        def _update(self, model, fn):
            with torch.no_grad():
                for e, m in zip(self.module.state_dict().values(), model.state_dict().values(), strict=True):
                    e.copy_(fn(e, m))

        def forward(self, model, x):
            self._update(model, lambda e, m: m)
            self._update(model, lambda e, m: self.decay * e + (1.0 - self.decay) * m)
            return self.module(x)

    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    ema = EMA(net)
    return lambda x: ema(net, x), drawn((3, 4))
