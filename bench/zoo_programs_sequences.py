"""Programs for bench/zoo.py in the manner of research code, written by hand: sequences and series."""

from __future__ import annotations

import math
import random

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, drawn, image, tokens

# ---- state spaces, recurrence by hand


@case("program S4")
def make_s4() -> Made:
    """The diagonal form: a kernel of complex exponentials, a convolution by FFT."""

    class S4D(nn.Module):
        def __init__(self, size: int = 8, states: int = 4) -> None:
            super().__init__()
            self.D, self.log_dt = nn.Parameter(torch.randn(size)), nn.Parameter(torch.rand(size) - 3)
            self.C = nn.Parameter(torch.view_as_real(torch.randn(size, states, dtype=torch.cfloat)))
            self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(size, states)))
            self.A_imag = nn.Parameter(math.pi * torch.arange(states).float().repeat(size, 1))
            self.mix = nn.Sequential(nn.Conv1d(size, 2 * size, 1), nn.GLU(dim=-2))

        def kernel(self, length: int) -> torch.Tensor:
            dt, C = torch.exp(self.log_dt), torch.view_as_complex(self.C)
            A = -torch.exp(self.log_A_real) + 1j * self.A_imag
            dtA = A * dt.unsqueeze(-1)
            K = dtA.unsqueeze(-1) * torch.arange(length)
            C = C * (torch.exp(dtA) - 1.0) / A
            return 2 * torch.einsum("hn, hnl -> hl", C, torch.exp(K)).real

        def forward(self, u: torch.Tensor) -> torch.Tensor:
            L = u.size(-1)
            k = self.kernel(L)
            y = torch.fft.irfft(torch.fft.rfft(u, n=2 * L) * torch.fft.rfft(k, n=2 * L), n=2 * L)[..., :L]
            return self.mix(F.gelu(y + u * self.D.unsqueeze(-1)))

    return S4D().eval(), image(2, 8, 12)


@case("program mamba")
def make_mamba() -> Made:
    class Mamba(nn.Module):
        def __init__(self, d: int = 8, n: int = 4, rank: int = 2) -> None:
            super().__init__()
            self.n, self.rank = n, rank
            self.in_proj, self.x_proj = nn.Linear(d, 4 * d, bias=False), nn.Linear(2 * d, rank + 2 * n, bias=False)
            self.conv = nn.Conv1d(2 * d, 2 * d, 4, groups=2 * d, padding=3)
            self.dt_proj, self.out_proj = nn.Linear(rank, 2 * d), nn.Linear(2 * d, d, bias=False)
            self.A_log = nn.Parameter(torch.log(torch.arange(1, n + 1).float().repeat(2 * d, 1)))
            self.D = nn.Parameter(torch.ones(2 * d))

        def scan(self, u, delta, A, B, C, D):
            b, length, d = u.shape
            deltaA = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
            deltaBu = torch.einsum("bld,bln,bld->bldn", delta, B, u)
            x = torch.zeros((b, d, A.shape[1]), device=u.device, dtype=u.dtype)
            ys = []
            for i in range(length):
                x = deltaA[:, i] * x + deltaBu[:, i]
                ys.append(torch.einsum("bdn,bn->bd", x, C[:, i, :]))
            return torch.stack(ys, dim=1) + u * D

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            _, length, _ = x.shape
            x, res = self.in_proj(x).chunk(2, dim=-1)
            x = F.silu(self.conv(x.transpose(1, 2))[:, :, :length].transpose(1, 2))
            delta, B, C = self.x_proj(x).split([self.rank, self.n, self.n], dim=-1)
            y = self.scan(x, F.softplus(self.dt_proj(delta)), -torch.exp(self.A_log), B, C, self.D)
            return self.out_proj(y * F.silu(res))

    return Mamba().eval(), image(2, 6, 8)


@case("program rwkv")
def make_rwkv() -> Made:
    class RWKV(nn.Module):
        def __init__(self, d: int = 8) -> None:
            super().__init__()
            self.decay, self.first = nn.Parameter(torch.randn(d)), nn.Parameter(torch.randn(d))
            self.mixes = nn.ParameterDict({k: nn.Parameter(torch.rand(1, 1, d)) for k in ("k", "v", "r")})
            self.k, self.v, self.r, self.out = (nn.Linear(d, d, bias=False) for _ in range(4))
            self.shift = nn.ZeroPad2d((0, 0, 1, -1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            xx = self.shift(x)
            k, v, r = (getattr(self, name)(x * mix + xx * (1 - mix)) for name, mix in sorted(self.mixes.items()))
            r, w = torch.sigmoid(r), -torch.exp(self.decay)
            aa, bb = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
            pp, out = torch.full_like(k[:, 0], -1e38), torch.empty_like(v)
            for t in range(x.size(1)):
                ww = self.first + k[:, t]
                qq = torch.maximum(pp, ww)
                e1, e2 = torch.exp(pp - qq), torch.exp(ww - qq)
                out[:, t] = (e1 * aa + e2 * v[:, t]) / (e1 * bb + e2)
                ww = pp + w
                qq = torch.maximum(ww, k[:, t])
                e1, e2 = torch.exp(ww - qq), torch.exp(k[:, t] - qq)
                aa, bb, pp = e1 * aa + e2 * v[:, t], e1 * bb + e2, qq
            return self.out(r * out)

    return RWKV().eval(), image(2, 5, 8)


@case("program retention")
def make_retention() -> Made:
    """Parallel, by chunks and step by step: all three the same."""

    class Retention(nn.Module):
        def __init__(self, d: int = 8, gamma: float = 0.9) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
            self.gamma = gamma

        def decay(self, n: int) -> torch.Tensor:
            i, j = torch.arange(n).unsqueeze(1), torch.arange(n).unsqueeze(0)
            D = (self.gamma ** (i - j)) * (i >= j).float()
            D[D != D] = 0
            return D

        def forward(self, x: torch.Tensor) -> tuple:
            q, k, v = self.q(x), self.k(x), self.v(x)
            parallel = (q @ k.transpose(-1, -2) * self.decay(x.size(1)).to(x.dtype)) @ v
            state, steps = 0, []
            for n in range(x.size(1)):
                state = self.gamma * state + k[:, n, :, None] * v[:, n, None, :]
                steps.append((q[:, n, None, :] @ state).squeeze(1))
            return parallel, torch.stack(steps, 1)

    return Retention().eval(), image(2, 5, 8)


@case("program fnet")
def make_fnet() -> Made:
    class Mixed(nn.Module):
        def __init__(self, d: int = 8) -> None:
            super().__init__()
            self.norm, self.ff = nn.LayerNorm(d), nn.Sequential(nn.Linear(d, 16), nn.GELU(), nn.Linear(16, d))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.norm(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)
            return x + self.ff(x)

    return nn.Sequential(Mixed(), Mixed()).eval(), image(2, 6, 8)


# ---- encoders and decoders that recur


@case("program seq2seq")
def make_seq2seq() -> Made:
    """Bahdanau's attention; the teacher is asked by a number that Python draws."""

    class Seq2Seq(nn.Module):
        def __init__(self, vocabulary: int = 20, size: int = 8) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(vocabulary, size), nn.Embedding(vocabulary, size)
            self.encoder = nn.GRU(size, size, bidirectional=True, batch_first=True)
            self.bridge, self.attn, self.v = (
                nn.Linear(2 * size, size),
                nn.Linear(3 * size, size),
                nn.Linear(size, 1),
            )
            self.decoder, self.out = nn.GRUCell(3 * size, size), nn.Linear(4 * size, vocabulary)

        def forward(self, src: torch.Tensor, trg: torch.Tensor, ratio: float = 0.5) -> torch.Tensor:
            rng = random.Random(int(src.size(0)))
            encoded, hidden = self.encoder(self.source(src))
            hidden = torch.tanh(self.bridge(torch.cat((hidden[-2], hidden[-1]), dim=1)))
            outputs = torch.zeros(src.size(0), trg.size(1), self.out.out_features, dtype=hidden.dtype)
            step = trg[:, 0]
            for t in range(1, trg.size(1)):
                embedded = self.target(step)
                repeated = hidden.unsqueeze(1).repeat(1, encoded.size(1), 1)
                energy = self.v(torch.tanh(self.attn(torch.cat((repeated, encoded), dim=2)))).squeeze(2)
                context = torch.bmm(F.softmax(energy, dim=1).unsqueeze(1), encoded).squeeze(1)
                hidden = self.decoder(torch.cat((embedded, context), dim=1), hidden)
                outputs[:, t] = self.out(torch.cat((hidden, context, embedded), dim=1))
                step = trg[:, t] if rng.random() < ratio else outputs[:, t].argmax(1)
            return outputs

    return Seq2Seq().eval(), lambda n: (tokens(20, 6)(n)[0], tokens(20, 5)(n + 50)[0])


@case("program seq2seq, the module's dice")
def make_dice() -> Made:
    """The dice of the module random, which every call throws anew."""

    class Decoding(nn.Module):
        def __init__(self, vocabulary: int = 20, size: int = 8) -> None:
            super().__init__()
            self.embed, self.cell = nn.Embedding(vocabulary, size), nn.LSTMCell(size, size)
            self.out = nn.Linear(size, vocabulary)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            h = c = torch.zeros(ids.size(0), 8, dtype=self.out.weight.dtype)
            step, outputs = ids[:, 0], []
            for t in range(1, ids.size(1)):
                h, c = self.cell(self.embed(step), (h, c))
                outputs.append(self.out(h))
                teacher = random.random() < 0.5
                step = ids[:, t] if teacher else outputs[-1].argmax(1).detach()
            return torch.stack(outputs, 1)

    return Decoding().eval(), tokens(20, 4)


@case("program ctc")
def make_ctc() -> Made:
    class Speech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Sequential(nn.Conv1d(8, 16, 3, stride=2, padding=1), nn.BatchNorm1d(16), nn.ReLU())
            self.rnn, self.out = nn.LSTM(16, 8, bidirectional=True, batch_first=True), nn.Linear(16, 10)

        def forward(self, x, targets, lengths, target_lengths):
            h, _ = self.rnn(self.conv(x.transpose(1, 2)).transpose(1, 2))
            logs = F.log_softmax(self.out(h), dim=-1)
            lengths = torch.div(lengths + 1, 2, rounding_mode="floor")
            loss = F.ctc_loss(logs.transpose(0, 1), targets, lengths, target_lengths, zero_infinity=True)
            return loss, logs.argmax(-1)

    def inputs(number: int) -> tuple:
        g = torch.Generator().manual_seed(number)
        targets = torch.randint(1, 10, (2, 3), generator=g)
        return torch.randn(2, 16, 8, generator=g), targets, torch.tensor([16, 12]), torch.tensor([3, 2])

    return Speech().eval(), inputs


@case("program word2vec")
def make_word2vec() -> Made:
    class SkipGram(nn.Module):
        def __init__(self, vocabulary: int = 30, size: int = 8) -> None:
            super().__init__()
            self.u, self.v = nn.Embedding(vocabulary, size, sparse=False), nn.Embedding(vocabulary, size)
            self.register_buffer("weights", torch.linspace(1, 2, vocabulary).pow(0.75))

        def forward(self, center: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
            u, v = self.u(center), self.v(context)
            negative = torch.multinomial(self.weights, center.size(0) * 4, replacement=True).view(-1, 4)
            positive = F.logsigmoid((u * v).sum(1).clamp(-10, 10))
            neg = F.logsigmoid(-torch.bmm(self.v(negative), u.unsqueeze(2)).squeeze(2).clamp(-10, 10)).sum(1)
            return -(positive + neg).mean()

    return SkipGram().eval(), lambda n: (tokens(30, 6)(n)[0][0], tokens(30, 6)(n + 9)[0][0])


# ---- time series


@case("program n-beats")
def make_nbeats() -> Made:
    class Block(nn.Module):
        def __init__(self, size: int, kind: str) -> None:
            super().__init__()
            self.kind = kind
            self.layers = nn.Sequential(nn.Linear(12, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU())
            self.b, self.f = (
                nn.Linear(size, 3 if kind == "trend" else 12),
                nn.Linear(size, 3 if kind == "trend" else 4),
            )

        def forward(self, x: torch.Tensor) -> tuple:
            h = self.layers(x)
            b, f = self.b(h), self.f(h)
            if self.kind == "trend":
                back, fore = (torch.arange(n).to(x.dtype) / n for n in (12, 4))
                b = b.mm(torch.stack([back**i for i in range(3)]))
                f = f.mm(torch.stack([fore**i for i in range(3)]))
            return b, f

    class NBeats(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stacks = nn.ModuleDict(
                {k: nn.ModuleList([Block(16, k) for _ in range(2)]) for k in ("trend", "any")}
            )

        def forward(self, x: torch.Tensor) -> tuple:
            forecast, parts = torch.zeros(x.size(0), 4, dtype=x.dtype), {}
            for name, blocks in self.stacks.items():
                for k, block in enumerate(blocks):
                    b, f = block(x)
                    x, forecast = x - b, forecast + f
                    parts[f"{name}.{k}"] = f
            return forecast, parts

    return NBeats().eval(), image(3, 12)


@case("program tcn")
def make_tcn() -> Made:
    from torch.nn.utils.parametrizations import weight_norm

    class Temporal(nn.Module):
        def __init__(self, n_in: int, n_out: int, dilation: int) -> None:
            super().__init__()
            self.padding = 2 * dilation
            self.conv1 = weight_norm(nn.Conv1d(n_in, n_out, 3, padding=self.padding, dilation=dilation))
            self.conv2 = weight_norm(nn.Conv1d(n_out, n_out, 3, padding=self.padding, dilation=dilation))
            self.down = nn.Conv1d(n_in, n_out, 1) if n_in != n_out else None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = F.dropout(F.relu(self.conv1(x)[:, :, : -self.padding].contiguous()), 0.2, self.training)
            y = F.dropout(F.relu(self.conv2(y)[:, :, : -self.padding].contiguous()), 0.2, self.training)
            return F.relu(y + (x if self.down is None else self.down(x)))

    return nn.Sequential(Temporal(3, 8, 1), Temporal(8, 8, 2), Temporal(8, 8, 4)).eval(), image(2, 3, 12)


@case("program informer")
def make_informer() -> Made:
    """Attention of the queries that say most, by keys drawn by chance; distilling between the layers."""

    class ProbAttention(nn.Module):
        def prob(self, Q, K, sample_k, n_top):
            B, H, L_K, E = K.shape
            _, _, L_Q, _ = Q.shape
            K_expand = K.unsqueeze(-3).expand(B, H, L_Q, L_K, E)
            index = torch.randint(L_K, (L_Q, sample_k))
            K_sample = K_expand[:, :, torch.arange(L_Q).unsqueeze(1), index, :]
            QK = torch.matmul(Q.unsqueeze(-2), K_sample.transpose(-2, -1)).squeeze(-2)
            M = QK.max(-1)[0] - torch.div(QK.sum(-1), L_K)
            M_top = M.topk(n_top, sorted=False)[1]
            Q_reduce = Q[torch.arange(B)[:, None, None], torch.arange(H)[None, :, None], M_top, :]
            return torch.matmul(Q_reduce, K.transpose(-2, -1)), M_top

        def forward(self, q, k, v):
            B, L, H, D = q.shape
            q, k, v = (x.transpose(2, 1) for x in (q, k, v))
            factor = min(3 * math.ceil(math.log(L)), L)
            scores, index = self.prob(q, k, factor, factor)
            attn = torch.softmax(scores * (1.0 / math.sqrt(D)), dim=-1)
            context = v.mean(dim=-2).unsqueeze(-2).expand(B, H, L, D).clone()
            context[torch.arange(B)[:, None, None], torch.arange(H)[None, :, None], index, :] = torch.matmul(
                attn, v
            ).type_as(context)
            return context.transpose(2, 1).contiguous()

    class Informer(nn.Module):
        def __init__(self, d: int = 8) -> None:
            super().__init__()
            self.value = nn.Conv1d(3, d, 3, padding=1, padding_mode="circular", bias=False)
            self.qkv, self.attention, self.out = nn.Linear(d, 3 * d), ProbAttention(), nn.Linear(d, d)
            self.down, self.norm, self.pool = (
                nn.Conv1d(d, d, 3, padding=1),
                nn.BatchNorm1d(d),
                nn.MaxPool1d(3, 2, 1),
            )
            self.head = nn.Linear(d, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mean = x.mean(1, keepdim=True).detach()
            std = torch.sqrt(x.var(dim=1, keepdim=True, unbiased=False) + 1e-5)
            x = self.value(((x - mean) / std).permute(0, 2, 1)).transpose(1, 2)
            B, L, _ = x.shape
            q, k, v = self.qkv(x).view(B, L, 3, 2, -1).unbind(2)
            x = x + self.out(self.attention(q, k, v).view(B, L, -1))
            x = self.pool(F.elu(self.norm(self.down(x.permute(0, 2, 1))))).transpose(1, 2)
            return self.head(x)[:, -4:, :]

    return Informer().eval(), image(2, 12, 3)


@case("program autoregressive wavenet")
def make_wavenet() -> Made:
    class WaveNet(nn.Module):
        def __init__(self, d: int = 8) -> None:
            super().__init__()
            self.start = nn.Conv1d(1, d, 1)
            self.filters = nn.ModuleList([nn.Conv1d(d, d, 2, dilation=2**k) for k in range(3)])
            self.gates = nn.ModuleList([nn.Conv1d(d, d, 2, dilation=2**k) for k in range(3)])
            self.skips = nn.ModuleList([nn.Conv1d(d, d, 1) for _ in range(3)])
            self.end = nn.Conv1d(d, 1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x, skip = self.start(x), 0
            for i, (f, g, s) in enumerate(zip(self.filters, self.gates, self.skips, strict=True)):
                residual = x
                x = F.pad(x, (2**i, 0))
                x = torch.tanh(f(x)) * torch.sigmoid(g(x))
                try:
                    skip = skip[:, :, -x.size(2) :]
                except TypeError:
                    skip = 0
                skip = s(x) + skip
                x = x + residual[:, :, -x.size(2) :]
            return self.end(F.relu(skip))

    return WaveNet().eval(), image(2, 1, 10)


@case("program deepar")
def make_deepar() -> Made:
    """Likelihoods of a Gaussian head step by step; scaled by the past."""

    class DeepAR(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.mu, self.sigma = nn.LSTM(3, 8, 2, dropout=0.1), nn.Linear(8, 1), nn.Linear(8, 1)

        def forward(self, z: torch.Tensor, covariates: torch.Tensor) -> torch.Tensor:
            hidden, loss = None, 0.0
            v = 1 + z.abs().mean(0)
            for t in range(z.size(0) - 1):
                step = torch.cat([(z[t] / v).unsqueeze(-1), covariates[t]], -1).unsqueeze(0)
                out, hidden = self.rnn(step, hidden)
                mu, sigma = self.mu(out[0]).squeeze(-1) * v, F.softplus(self.sigma(out[0])).squeeze(-1) * v
                loss = loss - torch.distributions.Normal(mu, sigma).log_prob(z[t + 1]).mean()
            return loss

    return DeepAR().eval(), drawn((5, 3), (5, 3, 2))
