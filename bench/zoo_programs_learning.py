"""Programs for bench/zoo.py in the manner of research code, written by hand: what learns."""

from __future__ import annotations

import collections
import copy
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, drawn, image

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
