"""Programs for bench/zoo.py in the manner of research code, written by hand: attention with caches, generation."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cases import Made, case, tokens, without_compiled_torchvision


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * cos + torch.cat((-x2, x1), dim=-1) * sin


def alibi_slopes(heads: int) -> torch.Tensor:
    def power_of_2(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return torch.tensor(power_of_2(heads))
    closest = 2 ** math.floor(math.log2(heads))
    return torch.tensor(power_of_2(closest) + power_of_2(2 * closest)[0::2][: heads - closest])


class Cache:
    def __init__(self) -> None:
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    @property
    def length(self) -> int:
        return self.keys[0].shape[-2] if self.keys else 0

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if len(self.keys) <= layer:
            self.keys.append(k)
            self.values.append(v)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], k], dim=-2)
            self.values[layer] = torch.cat([self.values[layer], v], dim=-2)
        return self.keys[layer], self.values[layer]

    def crop(self, length: int) -> None:
        self.keys = [k[..., :length, :] for k in self.keys]
        self.values = [v[..., :length, :] for v in self.values]


class Attention(nn.Module):
    def __init__(self, size: int, heads: int, layer: int, position: str) -> None:
        super().__init__()
        self.heads, self.layer, self.position = heads, layer, position
        self.qkv, self.out = nn.Linear(size, 3 * size, bias=False), nn.Linear(size, size, bias=False)
        inverse = 1.0 / (10000 ** (torch.arange(0, size // heads, 2).float() / (size // heads)))
        self.register_buffer("inverse", inverse, persistent=False)
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def forward(self, x: torch.Tensor, cache: Cache | None = None, past: int = 0) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        places = torch.arange(past, past + t, device=x.device)
        if self.position == "rope":
            angles = torch.outer(places.float(), self.inverse).to(x.dtype)
            cos, sin = (torch.cat((f, f), dim=-1) for f in (angles.cos(), angles.sin()))
            q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        if cache is not None:
            k, v = cache.update(self.layer, k, v)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        seen = torch.arange(k.size(-2), device=x.device)
        if self.position == "alibi":
            scores = scores + self.slopes.view(-1, 1, 1) * (seen[None, :] - places[:, None]).to(x.dtype)
        scores = scores.masked_fill(seen[None, :] > places[:, None], float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Decoder(nn.Module):
    def __init__(self, position: str, layers: int = 2, size: int = 16, vocabulary: int = 30) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, size)
        self.norms = nn.ModuleList([nn.LayerNorm(size) for _ in range(2 * layers)])
        self.attentions = nn.ModuleList([Attention(size, 2, k, position) for k in range(layers)])
        self.mlps = nn.ModuleList(
            [nn.Sequential(nn.Linear(size, 32), nn.SiLU(), nn.Linear(32, size)) for _ in range(layers)]
        )
        self.head = nn.Linear(size, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        past = cache.length if cache is not None else 0
        x = self.embed(ids)
        for k, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            x = x + attention(self.norms[2 * k](x), cache, past)
            x = x + mlp(self.norms[2 * k + 1](x))
        return self.head(x)


for _position in ("rope", "alibi"):

    @case(f"program {_position} decoder")
    def make_decoder(position: str = _position) -> Made:
        return Decoder(position).eval(), tokens(30, 8)

    @case(f"program {_position} greedy with a cache")
    def make_greedy(position: str = _position) -> Made:
        model = Decoder(position).eval()

        def generate(ids: torch.Tensor, steps: int = 4) -> torch.Tensor:
            cache = Cache()
            logits = model(ids, cache)
            out = [ids]
            for _ in range(steps):
                following = logits[:, -1].argmax(-1, keepdim=True)
                out.append(following)
                logits = model(following, cache)
            return torch.cat(out, dim=1)

        return generate, tokens(30, 5)


@case("program sampling until the end")
def make_sampling() -> Made:
    """Top p, a penalty of what was said, and an end that ends."""
    model = Decoder("rope").eval()

    @torch.no_grad()
    def generate(ids: torch.Tensor, steps: int = 4, top_p: float = 0.9, penalty: float = 1.2) -> torch.Tensor:
        unfinished = torch.ones(ids.size(0), dtype=torch.long)
        cache, fed = Cache(), ids
        for _ in range(steps):
            logits = model(fed, cache)[:, -1, :] / 0.7
            score = torch.gather(logits, 1, ids)
            logits = logits.scatter(1, ids, torch.where(score < 0, score * penalty, score / penalty))
            ordered, order = torch.sort(logits, descending=True)
            remove = ordered.softmax(-1).cumsum(-1) > top_p
            remove[..., 1:] = remove[..., :-1].clone()
            remove[..., 0] = 0
            logits = logits.masked_fill(remove.scatter(1, order, remove), -float("inf"))
            following = torch.multinomial(F.softmax(logits, -1), 1).squeeze(1)
            following = following * unfinished + 0 * (1 - unfinished)
            ids, fed = torch.cat([ids, following[:, None]], dim=-1), following[:, None]
            unfinished = unfinished.mul((following != 0).long())
            if unfinished.max() == 0:
                break
        return ids

    return generate, tokens(30, 5)


@case("program beam search with a cache")
def make_beams() -> Made:
    model = Decoder("alibi").eval()

    def search(ids: torch.Tensor, beams: int = 3, steps: int = 3) -> tuple:
        cache = Cache()
        ids = ids.repeat_interleave(beams, dim=0)
        scores = torch.full((beams,), -1e9)
        scores[0] = 0.0
        fed = ids
        for _ in range(steps):
            logits = F.log_softmax(model(fed, cache)[:, -1], dim=-1)
            total = (scores[:, None] + logits).view(-1)
            scores, picked = total.topk(beams)
            beam, token = picked // logits.size(-1), picked % logits.size(-1)
            ids = torch.cat([ids[beam], token[:, None]], dim=1)
            cache.keys = [k.index_select(0, beam) for k in cache.keys]
            cache.values = [v.index_select(0, beam) for v in cache.values]
            fed = token[:, None]
        return ids, scores

    return search, tokens(30, 5)


@case("program speculative decoding")
def make_speculative() -> Made:
    target, draft = Decoder("rope").eval(), Decoder("rope", layers=1).eval()

    def generate(ids: torch.Tensor, rounds: int = 2, gamma: int = 3) -> torch.Tensor:
        for _ in range(rounds):
            guessed, wanted = ids, []
            for _ in range(gamma):
                q = F.softmax(draft(guessed)[:, -1], -1)
                token = q.argmax(-1, keepdim=True)
                wanted.append(q.gather(-1, token))
                guessed = torch.cat([guessed, token], dim=1)
            p = F.softmax(target(guessed)[:, -gamma - 1 :], -1)
            accepted = 0
            for k in range(gamma):
                token = guessed[:, ids.size(1) + k : ids.size(1) + k + 1]
                ratio = (p[:, k].gather(-1, token) / wanted[k]).clamp(max=1)
                if ratio.item() < 0.5:
                    break
                accepted += 1
            rest = p[:, accepted].argmax(-1, keepdim=True)
            ids = torch.cat([guessed[:, : ids.size(1) + accepted], rest], dim=1)
        return ids

    return generate, tokens(30, 4)


def generated(kind: str, **settings: Any) -> None:
    """`generate` of transformers."""

    @case(f"transformers generate, {kind}")
    def make() -> Made:
        without_compiled_torchvision()
        import transformers

        config = transformers.LlamaConfig(
            vocab_size=30,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
        model = transformers.LlamaForCausalLM(config).eval()

        def f(ids: torch.Tensor) -> torch.Tensor:
            return model.generate(ids, max_new_tokens=4, min_new_tokens=4, **settings)

        return f, lambda number: (tokens(27, 5)(number)[0] + 3,)


generated("greedy", do_sample=False)
generated("sampling", do_sample=True, top_k=5, temperature=0.8)
generated("beams", num_beams=2, do_sample=False)
