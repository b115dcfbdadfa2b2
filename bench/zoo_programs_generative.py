"""Programs for bench/zoo.py in the manner of research code, written by hand: densities and diffusion."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, drawn, image


class Times(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        half = self.size // 2
        scale = math.log(10000) / (half - 1)
        angles = t[:, None].float() * torch.exp(torch.arange(half, device=t.device) * -scale)[None, :]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class Denoiser(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.times = nn.Sequential(Times(8), nn.Linear(8, 16), nn.SiLU())
        self.first, self.last = nn.Linear(size, 16), nn.Linear(16, size)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return self.last(F.silu(self.first(x) + self.times[1:](self.times[0](t).to(x.dtype))))


def extract(a: torch.Tensor, t: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))


@case("program ddpm loss")
def make_ddpm() -> Made:
    class DDPM(nn.Module):
        def __init__(self, steps: int = 20, objective: str = "pred_v") -> None:
            super().__init__()
            self.model, self.steps, self.objective = Denoiser(), steps, objective
            t = torch.linspace(0, steps, steps + 1, dtype=torch.float64) / steps
            bar = torch.cos((t + 0.008) / 1.008 * math.pi * 0.5) ** 2
            betas = torch.clip(1 - (bar[1:] / bar[0]) / (bar[:-1] / bar[0]), 0, 0.999)
            products = torch.cumprod(1.0 - betas, dim=0)
            register = lambda name, value: self.register_buffer(name, value.to(torch.float32))  # noqa: E731
            register("sqrt_products", torch.sqrt(products))
            register("sqrt_rest", torch.sqrt(1.0 - products))
            snr = products / (1 - products)
            register("weight", torch.clamp(snr, max=5.0) / (snr + 1))

        def q_sample(self, x, t, noise):
            return extract(self.sqrt_products, t, x.shape) * x + extract(self.sqrt_rest, t, x.shape) * noise

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            t = torch.randint(0, self.steps, (x.shape[0],), device=x.device).long()
            noise = torch.randn_like(x)
            noisy = self.q_sample(x, t, noise)
            out = self.model(noisy, t)
            if self.objective == "pred_noise":
                target = noise
            elif self.objective == "pred_v":
                target = extract(self.sqrt_products, t, x.shape) * noise - extract(self.sqrt_rest, t, x.shape) * x
            else:
                raise ValueError(f"unknown objective {self.objective}")
            loss = F.mse_loss(out, target, reduction="none").flatten(1).mean(1)
            return (loss * extract(self.weight, t, loss.shape)).mean()

    return DDPM().eval(), drawn((6, 4))


@case("program flow matching loss")
def make_flow_matching() -> Made:
    class Matching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Denoiser()

        def forward(self, x1: torch.Tensor) -> torch.Tensor:
            t, x0 = torch.rand(x1.shape[0], 1).to(x1.dtype), torch.randn_like(x1)
            xt = (1 - (1 - 1e-4) * t) * x0 + t * x1
            return (self.model(xt, t.squeeze(-1)) - (x1 - (1 - 1e-4) * x0)).pow(2).mean()

    return Matching().eval(), drawn((6, 4))


@case("program flow matching sampler")
def make_flow_sampler() -> Made:
    model = Denoiser().eval()

    def sample(x: torch.Tensor, steps: int = 5, scale: float = 1.5) -> torch.Tensor:
        path, times = [x], torch.linspace(0, 1, steps)
        for t, following in zip(times[:-1], times[1:], strict=True):
            dt = following - t
            both = model(torch.cat([x, x * 0.5]), t.expand(2 * x.size(0)))
            given, free = both.chunk(2)
            midpoint = x + (free + scale * (given - free)) * dt / 2
            x = x + dt * model(midpoint, (t + dt / 2).expand(x.size(0)))
            path.append(x)
        return torch.stack(path)

    return sample, drawn((3, 4))


@case("program karras sampler")
def make_karras() -> Made:
    """Noise levels as Python's floats, churn and Heun's second step."""
    model = Denoiser().eval()

    def sample(x: torch.Tensor, steps: int = 4, s_churn: float = 2.0) -> torch.Tensor:
        ramp = torch.linspace(0, 1, steps)
        sigmas = (80 ** (1 / 7) + ramp * (0.002 ** (1 / 7) - 80 ** (1 / 7))) ** 7
        sigmas = torch.cat([sigmas, sigmas.new_zeros([1])])
        x = x * sigmas[0]
        for i in range(len(sigmas) - 1):
            gamma = min(s_churn / (len(sigmas) - 1), 2**0.5 - 1) if 0.05 <= sigmas[i] <= 50 else 0.0
            hat = sigmas[i] * (gamma + 1)
            if gamma > 0:
                x = x + torch.randn_like(x) * (hat**2 - sigmas[i] ** 2) ** 0.5
            d = (x - model(x, hat.repeat(x.size(0)))) / hat
            dt = sigmas[i + 1] - hat
            if sigmas[i + 1] == 0:
                x = x + d * dt
            else:
                second = x + d * dt
                d2 = (second - model(second, sigmas[i + 1].repeat(x.size(0)))) / sigmas[i + 1]
                x = x + (d + d2) / 2 * dt
        return x

    return sample, drawn((3, 4))


@case("program vae")
def make_vae() -> Made:
    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc21, self.fc22 = nn.Linear(16, 12), nn.Linear(12, 4), nn.Linear(12, 4)
            self.fc3, self.fc4 = nn.Linear(4, 12), nn.Linear(12, 16)

        def encode(self, x):
            h = F.relu(self.fc1(x))
            return self.fc21(h), self.fc22(h)

        def reparameterize(self, mu, logvar):
            std = torch.exp(0.5 * logvar)
            return mu + torch.randn_like(std) * std

        def forward(self, x: torch.Tensor) -> tuple:
            x = torch.sigmoid(x.view(-1, 16))
            mu, logvar = self.encode(x)
            recon = torch.sigmoid(self.fc4(F.relu(self.fc3(self.reparameterize(mu, logvar)))))
            BCE = F.binary_cross_entropy(recon, x.detach(), reduction="sum")
            return recon, BCE - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())

    return VAE().eval(), image(3, 1, 4, 4)


@case("program gumbel vae")
def make_gumbel() -> Made:
    class Discrete(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Linear(8, 12), nn.Linear(12, 8)
            self.temperature = 1.0

        def forward(self, x: torch.Tensor) -> tuple:
            logits = self.encoder(x).view(x.size(0), 3, 4)
            z = F.gumbel_softmax(logits, tau=self.temperature, hard=not self.training)
            q = F.softmax(logits, -1)
            kl = (q * torch.log(q * 4 + 1e-20)).sum((-1, -2)).mean()
            return self.decoder(z.flatten(1)), kl

    return Discrete().eval(), drawn((5, 8))


@case("program wgan penalty")
def make_wgan() -> Made:
    """Gradients of the critic at mixtures, in forward."""

    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
            self.generator = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4), nn.Tanh())

        def forward(self, real: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                fake = self.generator(z).detach()
                alpha = torch.rand(real.size(0), 1).to(real.dtype)
                mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
                scores = self.net(mixed)
                (gradients,) = torch.autograd.grad(
                    outputs=scores, inputs=mixed, grad_outputs=torch.ones_like(scores), create_graph=True
                )
                penalty = ((gradients.view(real.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()
                return self.net(fake).mean() - self.net(real).mean() + 10 * penalty

    return Critic().eval(), drawn((5, 4), (5, 3))


@case("program langevin")
def make_langevin() -> Made:
    class Energy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1))

        def sample(self, x: torch.Tensor, steps: int = 3) -> torch.Tensor:
            is_training = self.training
            self.eval()
            with torch.enable_grad():
                x = x.detach().clone().requires_grad_(True)
                for _ in range(steps):
                    noise = torch.randn_like(x) * 0.005
                    x.data.add_(noise)
                    grad = torch.autograd.grad(self.net(x).sum(), [x])[0]
                    x.data.add_(-0.1 * grad.clamp(-0.03, 0.03))
            self.train(is_training)
            return x.detach()

        def forward(self, x: torch.Tensor) -> tuple:
            fake = self.sample(torch.rand_like(x))
            real_e, fake_e = self.net(torch.cat([x, fake])).chunk(2)
            return fake_e.mean() - real_e.mean() + 0.1 * (real_e**2 + fake_e**2).mean(), fake

    return Energy().eval(), drawn((5, 4))


@case("program langevin without data")
def make_langevin_pure() -> Made:
    net = nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1)).eval()

    def sample(x: torch.Tensor, steps: int = 3) -> torch.Tensor:
        for k in range(steps):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                (grad,) = torch.autograd.grad(net(x).sum(), x)
            x = x - 0.1 * grad + math.sqrt(0.2) * 0.1 / (k + 1) * torch.randn_like(x)
        return x.detach()

    return sample, drawn((5, 4))


@case("program score matching")
def make_score() -> Made:
    """The trace of the Jacobian, by a gradient for each dimension, and by a random projection."""

    class Score(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 3))

        def forward(self, x: torch.Tensor) -> tuple:
            with torch.enable_grad():
                x = x.detach().requires_grad_(True)
                score = self.net(x)
                trace = torch.zeros(x.shape[0], dtype=x.dtype)
                for i in range(x.shape[1]):
                    trace = trace + torch.autograd.grad(score[:, i].sum(), x, create_graph=True)[0][:, i]
                v = torch.randn_like(x).sign()
                projected = torch.autograd.grad((score * v).sum(), x, create_graph=True)[0]
                return (trace + 0.5 * score.pow(2).sum(1)).mean(), (
                    (projected * v).sum(1) + 0.5 * (score * v).sum(1) ** 2
                ).mean()

    return Score().eval(), drawn((5, 3))


@case("program realnvp")
def make_realnvp() -> Made:
    class RealNVP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            masks = torch.tensor([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]] * 2)
            self.mask = nn.Parameter(masks, requires_grad=False)
            nets = lambda: nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(), nn.Linear(16, 4), nn.Tanh())  # noqa: E731
            self.t, self.s = (nn.ModuleList([nets() for _ in range(len(masks))]) for _ in range(2))
            self.register_buffer("scale", torch.eye(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            log_det, z = x.new_zeros(x.shape[0]), x
            for i in reversed(range(len(self.t))):
                masked = self.mask[i] * z
                s, t = self.s[i](masked) * (1 - self.mask[i]), self.t[i](masked) * (1 - self.mask[i])
                z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + masked
                log_det -= s.sum(dim=1)
            prior = torch.distributions.MultivariateNormal(z.new_zeros(4), self.scale)
            return prior.log_prob(z) + log_det

    return RealNVP().eval(), drawn((5, 4))


@case("program glow")
def make_glow() -> Made:
    """Actnorm that initialises itself by its first batch, an invertible 1x1 convolution, squeezing."""

    class ActNorm(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.loc, self.scale = nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(torch.ones(1, c, 1, 1))
            self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

        def forward(self, x):
            if self.initialized.item() == 0:
                with torch.no_grad():
                    flat = x.permute(1, 0, 2, 3).contiguous().view(x.shape[1], -1)
                    self.loc.data.copy_(-flat.mean(1).view(1, -1, 1, 1))
                    self.scale.data.copy_(1 / (flat.std(1).view(1, -1, 1, 1) + 1e-6))
                self.initialized.fill_(1)
            return self.scale * (x + self.loc), x.shape[2] * x.shape[3] * self.scale.abs().log().sum()

    class Step(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.norm, self.weight = ActNorm(c), nn.Parameter(torch.linalg.qr(torch.randn(c, c))[0])
            self.net = nn.Sequential(nn.Conv2d(c // 2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, c, 3, padding=1))

        def forward(self, x):
            x, logdet = self.norm(x)
            _, _, h, w = x.shape
            x = F.conv2d(x, self.weight[:, :, None, None])
            logdet = logdet + h * w * torch.slogdet(self.weight.double())[1].to(x.dtype)
            a, b = x.chunk(2, 1)
            log_s, t = self.net(a).chunk(2, 1)
            s = torch.sigmoid(log_s + 2)
            return torch.cat([a, (b + t) * s], 1), logdet + torch.sum(torch.log(s).view(x.shape[0], -1), 1)

    class Glow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = nn.ModuleList([Step(4), Step(4)])

        def forward(self, x: torch.Tensor) -> tuple:
            b, c, h, w = x.shape
            x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, c * 4, h // 2, w // 2)
            total = 0
            for step in self.steps:
                x, logdet = step(x)
                total = total + logdet
            log_p = (-0.5 * math.log(2 * math.pi) - 0.5 * x**2).view(b, -1).sum(1)
            return x, (-(log_p + total) / (math.log(2) * c * h * w)).mean()

    return Glow().eval(), image(3, 1, 8, 8)


@case("program maf")
def make_maf() -> Made:
    class Masked(nn.Linear):
        def __init__(self, n_in: int, n_out: int, mask: torch.Tensor) -> None:
            super().__init__(n_in, n_out)
            self.register_buffer("mask", mask)

        def forward(self, x):
            return F.linear(x, self.mask * self.weight, self.bias)

    class MADE(nn.Module):
        def __init__(self, d: int = 4, h: int = 12) -> None:
            super().__init__()
            degrees, hidden = torch.arange(1, d + 1), torch.arange(h) % (d - 1) + 1
            self.first = Masked(d, h, (hidden[:, None] >= degrees[None]).float())
            self.last = Masked(h, 2 * d, (degrees.repeat(2)[:, None] > hidden[None]).float())

        def forward(self, x):
            return self.last(F.relu(self.first(x))).chunk(2, -1)

        def inverse(self, z):
            x = torch.zeros_like(z)
            for d in range(z.size(1)):
                mu, log_s = self(x)
                x[:, d] = z[:, d] * torch.exp(log_s[:, d]) + mu[:, d]
            return x

    made = MADE().eval()

    def f(x: torch.Tensor) -> tuple:
        mu, log_s = made(x)
        z = (x - mu) * torch.exp(-log_s)
        return z, -log_s.sum(-1), made.inverse(z)

    return f, drawn((5, 4))
