"""Programs for bench/zoo.py in the manner of research code, written by hand: numbers, speech, language."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, drawn, image, tokens

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
        beams = [Hypothesis([0], start.sum() * 0)]
        for _ in range(3):
            grown = []
            for beam in beams:
                scores = F.log_softmax(table[beam.ids[-1]] + start, -1)
                for index in (1, 2):
                    grown.append(Hypothesis([*beam.ids, index], beam.score + scores[index]))
            beams = grown[:3]
        return [b.ids for b in beams], torch.stack([b.score for b in beams])

    return search, drawn((12,))
