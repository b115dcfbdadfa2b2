"""Programs for bench/zoo.py in the manner of research code, written by hand: what sees."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, drawn, image

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

    return Fresh(), drawn((4, 8), (4, 8))


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
