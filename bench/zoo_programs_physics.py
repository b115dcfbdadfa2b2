"""Programs for bench/zoo.py in the manner of research code, written by hand: differential equations, fields."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, drawn, image

# ---- ordinary and partial differential equations


@case("program neural ode, rk4")
def make_rk4() -> Made:
    class ODE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.nfe = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2)), 0

        def rate(self, t: float, y: torch.Tensor) -> torch.Tensor:
            self.nfe += 1
            return self.net(torch.cat([y, torch.full_like(y[..., :1], t)], -1))

        def forward(self, y: torch.Tensor, steps: int = 4) -> torch.Tensor:
            self.nfe = 0
            t, h, path = 0.0, 1.0 / steps, [y]
            while t < 1.0 - 1e-9:
                k1 = self.rate(t, y)
                k2 = self.rate(t + h / 2, y + h / 2 * k1)
                k3 = self.rate(t + h / 2, y + h / 2 * k2)
                k4 = self.rate(t + h, y + h * k3)
                y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
                t += h
                path.append(y)
            return torch.stack(path)

    return ODE().eval(), drawn((4, 2))


@case("program hamiltonian net")
def make_hamiltonian() -> Made:
    class HNN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.H = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                q, p = (y.detach().requires_grad_() for y in x.chunk(2, -1))
                for _ in range(2):  # leapfrog
                    dq = torch.autograd.grad(self.H(torch.cat([q, p], -1)).sum(), q, create_graph=True)[0]
                    p = p - 0.05 * dq
                    dp = torch.autograd.grad(self.H(torch.cat([q, p], -1)).sum(), p, create_graph=True)[0]
                    q = q + 0.1 * dp
                return torch.cat([q, p], -1)

    return HNN().eval(), drawn((4, 2))


@case("program pinn")
def make_pinn() -> Made:
    """Burgers' equation: second derivatives of the network by its inputs, in the loss."""

    class PINN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                x, t = x.clone().requires_grad_(True), t.clone().requires_grad_(True)
                u = self.net(torch.cat([x, t], dim=1))
                ones = torch.ones_like(u)
                u_t = torch.autograd.grad(u, t, ones, retain_graph=True, create_graph=True)[0]
                u_x = torch.autograd.grad(u, x, ones, retain_graph=True, create_graph=True)[0]
                u_xx = torch.autograd.grad(u_x, x, ones, retain_graph=True, create_graph=True)[0]
                return (u_t + u * u_x - (0.01 / math.pi) * u_xx).pow(2).mean()

    return PINN().eval(), drawn((6, 1), (6, 1))


@case("program fourier neural operator")
def make_fno() -> Made:
    class Spectral(nn.Module):
        def __init__(self, c: int, m1: int, m2: int) -> None:
            super().__init__()
            self.c, self.m1, self.m2 = c, m1, m2
            self.w1 = nn.Parameter(torch.rand(c, c, m1, m2, 2) / c)
            self.w2 = nn.Parameter(torch.rand(c, c, m1, m2, 2) / c)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x_ft = torch.fft.rfft2(x)
            out = torch.zeros(x.size(0), self.c, x.size(-2), x.size(-1) // 2 + 1, dtype=x_ft.dtype)
            mul = lambda a, w: torch.einsum("bixy,ioxy->boxy", a, torch.view_as_complex(w))  # noqa: E731
            out[:, :, : self.m1, : self.m2] = mul(x_ft[:, :, : self.m1, : self.m2], self.w1)
            out[:, :, -self.m1 :, : self.m2] = mul(x_ft[:, :, -self.m1 :, : self.m2], self.w2)
            return torch.fft.irfft2(out, s=(x.size(-2), x.size(-1)))

    class FNO(nn.Module):
        def __init__(self, c: int = 6) -> None:
            super().__init__()
            self.fc0, self.fc1 = nn.Linear(3, c), nn.Linear(c, 1)
            self.spectral = nn.ModuleList([Spectral(c, 3, 3) for _ in range(2)])
            self.w = nn.ModuleList([nn.Conv2d(c, c, 1) for _ in range(2)])

        def grid(self, shape) -> torch.Tensor:
            b, n, m = shape[0], shape[1], shape[2]
            gx = torch.linspace(0, 1, n).reshape(1, n, 1, 1).repeat([b, 1, m, 1])
            gy = torch.linspace(0, 1, m).reshape(1, 1, m, 1).repeat([b, n, 1, 1])
            return torch.cat((gx, gy), dim=-1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.cat((x, self.grid(x.shape).to(x.dtype)), dim=-1)
            x = F.pad(self.fc0(x).permute(0, 3, 1, 2), [0, 2, 0, 2])
            for k, (s, w) in enumerate(zip(self.spectral, self.w, strict=True)):
                x = s(x) + w(x)
                if k < len(self.w) - 1:
                    x = F.gelu(x)
            return self.fc1(x[..., :-2, :-2].permute(0, 2, 3, 1))

    return FNO().eval(), image(2, 8, 8, 1)


@case("program deeponet")
def make_deeponet() -> Made:
    class DeepONet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branch, self.trunk = (
                nn.Sequential(nn.Linear(n, 16), nn.Tanh(), nn.Linear(16, 8)) for n in (10, 2)
            )
            self.bias = nn.Parameter(torch.zeros(()))

        def forward(self, u: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.einsum("bi,ni->bn", self.branch(u), self.trunk(y)) + self.bias

    return DeepONet().eval(), drawn((3, 10), (7, 2))


# ---- fields


@case("program signed distances")
def make_distances() -> Made:
    """Fourier features, a skip in the middle, normals and the eikonal loss; marching along rays."""

    class Field(nn.Module):
        def __init__(self, bands: int = 3) -> None:
            super().__init__()
            self.register_buffer("bands", 2.0 ** torch.linspace(0, bands - 1, bands))
            width = 3 + 6 * bands
            self.a, self.b, self.c = nn.Linear(width, 16), nn.Linear(16 + width, 16), nn.Linear(16, 1)

        def encode(self, x):
            angles = (x[..., None] * self.bands).flatten(-2)
            return torch.cat([x, angles.sin(), angles.cos()], -1)

        def sdf(self, x):
            e = self.encode(x)
            h = F.softplus(self.a(e), beta=100)
            return self.c(F.softplus(self.b(torch.cat([h, e], -1) / math.sqrt(2)), beta=100))

        def gradient(self, x):
            x.requires_grad_(True)
            y = self.sdf(x)
            d = torch.ones_like(y, requires_grad=False)
            return torch.autograd.grad(y, x, d, create_graph=True, retain_graph=True, only_inputs=True)[0]

        def forward(self, origins: torch.Tensor, directions: torch.Tensor) -> tuple:
            directions = F.normalize(directions, dim=-1)
            depth = torch.zeros_like(origins[..., :1])
            with torch.no_grad():
                for _ in range(3):
                    distance = self.sdf(origins + depth * directions)
                    depth = torch.where(distance.abs() > 1e-3, depth + distance, depth)
            with torch.enable_grad():
                normals = self.gradient((origins + depth * directions).detach())
                eikonal = ((normals.norm(2, dim=-1) - 1) ** 2).mean()
            return depth, F.normalize(normals, dim=-1), eikonal

    return Field().eval(), drawn((4, 3), (4, 3))


@case("program hash grid")
def make_hash_grid() -> Made:
    class Hashed(nn.Module):
        def __init__(self, levels: int = 3, size: int = 32) -> None:
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(size, 2) for _ in range(levels)])
            self.growth, self.size = math.exp((math.log(16) - math.log(2)) / (levels - 1)), size
            self.net = nn.Linear(2 * levels, 4)
            corners = torch.tensor([[[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)]])
            self.register_buffer("corners", corners, persistent=False)

        def hash(self, coords):
            primes = [1, 2654435761, 805459861]
            result = torch.zeros_like(coords)[..., 0]
            for i in range(coords.shape[-1]):
                result ^= coords[..., i] * primes[i]
            return result % self.size

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.sigmoid()
            out = []
            for i, table in enumerate(self.tables):
                resolution = math.floor(2 * self.growth**i)
                low = torch.floor(x * resolution).int()
                w = x * resolution - low
                e = table(self.hash((low.unsqueeze(1) + self.corners).long()))
                c00, c01, c10, c11 = (e[:, k] * (1 - w[:, 0:1]) + e[:, k + 4] * w[:, 0:1] for k in range(4))
                c0, c1 = c00 * (1 - w[:, 1:2]) + c10 * w[:, 1:2], c01 * (1 - w[:, 1:2]) + c11 * w[:, 1:2]
                out.append(c0 * (1 - w[:, 2:]) + c1 * w[:, 2:])
            return self.net(torch.cat(out, -1))

    return Hashed().eval(), drawn((6, 3))


@case("program gaussian splats")
def make_splats() -> Made:
    """Quaternions to covariances, projection, sorting by depth, alpha compositing."""

    class Splats(nn.Module):
        def __init__(self, n: int = 6) -> None:
            super().__init__()
            self.mean, self.q, self.scale = (nn.Parameter(torch.randn(n, k)) for k in (3, 4, 3))
            self.opacity, self.color = nn.Parameter(torch.randn(n, 1)), nn.Parameter(torch.rand(n, 3))

        def covariance(self):
            r, x, y, z = F.normalize(self.q, dim=-1).unbind(-1)
            R = torch.zeros((r.size(0), 3, 3), dtype=r.dtype)
            R[:, 0, 0], R[:, 0, 1], R[:, 0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - r * z), 2 * (x * z + r * y)
            R[:, 1, 0], R[:, 1, 1], R[:, 1, 2] = 2 * (x * y + r * z), 1 - 2 * (x * x + z * z), 2 * (y * z - r * x)
            R[:, 2, 0], R[:, 2, 1], R[:, 2, 2] = 2 * (x * z - r * y), 2 * (y * z + r * x), 1 - 2 * (x * x + y * y)
            L = R @ torch.diag_embed(self.scale.exp() * 0.3)
            return L @ L.transpose(1, 2)

        def forward(self, camera: torch.Tensor) -> torch.Tensor:
            points = self.mean + camera[:3] + torch.tensor([0.0, 0.0, 6.0], dtype=camera.dtype)
            order = points[:, 2].argsort()
            cov = self.covariance()[:, :2, :2] + 0.3 * torch.eye(2, dtype=camera.dtype)
            det = cov[:, 0, 0] * cov[:, 1, 1] - cov[:, 0, 1] ** 2
            conic = torch.stack([cov[:, 1, 1], -cov[:, 0, 1], cov[:, 0, 0]], -1) / det[:, None]
            xy = points[:, :2] / points[:, 2:] * 6 + 3
            ys, xs = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
            pixels = torch.stack([xs, ys], -1).reshape(-1, 1, 2).to(camera.dtype)
            dx = pixels - xy[order]
            a, b, c = conic[order].unbind(-1)
            power = -0.5 * (a * dx[..., 0] ** 2 + c * dx[..., 1] ** 2) - b * dx[..., 0] * dx[..., 1]
            alpha = (self.opacity[order].sigmoid().T * power.clamp(max=0).exp()).clamp(max=0.99)
            T = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
            return ((alpha * T)[..., None] * self.color[order]).sum(1).view(6, 6, 3)

    return Splats().eval(), drawn((4,))
