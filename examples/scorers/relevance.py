"""Relevance scorers: which tokens of an image matter. Inference, training and CUDA graphs, eager and compiled.

    examples/scorers/run                                      # torch.compile is braze's
    examples/scorers/run --pytorch                            # and PyTorch's, after it
    python -m braze run examples/scorers/relevance.py         # the script alone

On a GPU where there is one. The last table has published figures for such scorers beside the measured ones.
"""

import statistics
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "practice"))
from lesson import Lesson, first_call_ms, run
from scorers import AllScorers, Information, QueryContent, Salience

BATCH, TOKENS, WIDTH, CLASSES = 32, 196, 768, 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Classifier(nn.Module):
    """All of an inference: tokens are embedded, scored, pooled by their relevance and classified."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.scorers = AllScorers()
        self.mix = nn.Parameter(torch.ones(3) / 3)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, features, query):
        embedded = F.gelu(self.embed(features))
        information, salience, content = self.scorers(embedded, query)
        mixed = self.mix[0] * information + self.mix[1] * salience + self.mix[2] * content
        relevance = torch.softmax(mixed, dim=-1)
        return self.head((relevance.unsqueeze(-1) * embedded).sum(dim=1))


def inputs(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, TOKENS, WIDTH, device=DEVICE), torch.randn(batch, 1, WIDTH, device=DEVICE)


def finished(call):
    """With what the GPU does for it."""

    def whole():
        call()
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    return whole


def compare(lesson: Lesson, model: nn.Module, batch: int, **choices) -> dict[str, float]:
    """Milliseconds of a call, eager and compiled, and of the first compiled one. The results are checked."""
    features, query = inputs(batch)
    torch._dynamo.reset()
    compiled = torch.compile(model, **choices)
    first = first_call_ms(finished(lambda: compiled(features, query)))
    torch.testing.assert_close(compiled(features, query), model(features, query), rtol=1e-3, atol=1e-3)
    times = lesson.median_us(
        eager=finished(lambda: model(features, query)), compiled=finished(lambda: compiled(features, query))
    )
    return {"first": first, **{name: us / 1e3 for name, us in times.items()}}


def row(name: str, times: dict[str, float]) -> list[str]:
    return [
        name,
        f"{times['eager']:.2f}",
        f"{times['compiled']:.2f}",
        f"{times['eager'] / times['compiled']:.2f}",
        f"{times['first']:.0f}",
    ]


HEADINGS = ["", "eager ms", "compiled ms", "times as fast", "first call ms"]


def inference(lesson: Lesson) -> dict[str, dict[str, float]]:
    batch = 4 if lesson.quick else BATCH
    models = {
        "information": (Information(), batch),
        "salience": (Salience(), batch),
        "query content": (QueryContent(), batch),
        "three scorers": (AllScorers(), batch),
        "whole inference": (Classifier(), batch),
        "whole inference, batch 1": (Classifier(), 1),
    }
    with torch.no_grad():
        found = {name: compare(lesson, model.to(DEVICE).eval(), size) for name, (model, size) in models.items()}
    lesson.table(HEADINGS, [row(name, times) for name, times in found.items()])
    return found


class Training:
    """One model's steps: forward under bf16 autocast, backward of the scaled loss, the optimizer through the
    GradScaler."""

    def __init__(self, compile: bool):
        torch.manual_seed(0)
        self.model = Classifier().to(DEVICE).train()
        self.forward = torch.compile(self.model) if compile else self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.scaler = torch.amp.GradScaler(DEVICE)

    def step(self, features, query, labels) -> torch.Tensor:
        self.optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.cross_entropy(self.forward(features, query), labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


def training(lesson: Lesson) -> dict[str, float]:
    torch.manual_seed(0)
    batch = 4 if lesson.quick else BATCH
    data = (*inputs(batch), torch.randint(CLASSES, (batch,), device=DEVICE))
    torch._dynamo.reset()
    eager, compiled = Training(compile=False), Training(compile=True)
    first = first_call_ms(finished(lambda: compiled.step(*data)))
    eager.step(*data)
    losses = [(one.step(*data).item(), other.step(*data).item()) for one, other in [(eager, compiled)] * 3]
    torch.testing.assert_close(*map(torch.tensor, zip(*losses, strict=True)), rtol=0.05, atol=0.05)
    times = lesson.median_us(
        eager=finished(lambda: eager.step(*data)), compiled=finished(lambda: compiled.step(*data))
    )
    found = {"first": first, **{name: us / 1e3 for name, us in times.items()}}
    lesson.table(HEADINGS, [row("a step", found)])
    lesson.say()
    lesson.table(
        ["step", "loss eager", "loss compiled"],
        [[number, f"{one:.4f}", f"{other:.4f}"] for number, (one, other) in enumerate(losses, 2)],
    )
    return found


def launching_us(call) -> float:
    """How long a call keeps the processor busy while the GPU has nothing else to do."""
    times = []
    for _ in range(50):
        torch.cuda.synchronize()
        times.append(first_call_ms(call) * 1e3)
    torch.cuda.synchronize()
    return statistics.median(times)


def cuda_graphs(lesson: Lesson) -> dict[str, float] | None:
    """How long the processor is busy with a call: launching kernels one by one, or as a graph."""
    if DEVICE != "cuda":
        lesson.say("skipped: there is no GPU here, and so no launches to save")
        return None
    model = AllScorers().to(DEVICE).eval()
    features, query = inputs(1)
    torch._dynamo.reset()
    plain, graphed = torch.compile(model), torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        calls = {
            "eager": lambda: model(features, query),
            "compiled": lambda: plain(features, query),
            "graphs": lambda: graphed(features, query),
        }
        for call in calls.values():
            for _ in range(5):  # Warm-up, recording, and replays.
                call()
        found = {}
        for name, call in calls.items():
            found[name] = launching_us(call)
        whole = lesson.median_us(**{name: finished(call) for name, call in calls.items()})
    lesson.table(
        ["three scorers, batch 1", "launching us", "until it is done us"],
        [[name, f"{found[name]:.1f}", f"{whole[name]:.1f}"] for name in calls],
    )
    return found


def main(lesson: Lesson) -> None:
    lesson.section("Inference")
    inferred = inference(lesson)
    lesson.section("Training under bf16 autocast with a GradScaler")
    trained = training(lesson)
    lesson.section("CUDA graphs")
    launched = cuda_graphs(lesson)

    def times(found: dict[str, float]) -> str:
        return f"{found['eager'] / found['compiled']:.2f} times"

    scorers, whole, small = (
        inferred[name] for name in ("three scorers", "whole inference", "whole inference, batch 1")
    )
    graphs = f"{launched['eager']:.0f} -> {launched['graphs']:.0f} us" if launched else "no GPU"
    lesson.section("Published figures, and those measured here")
    lesson.say(f"(measured on {DEVICE}; published ones are of GPUs)")
    lesson.table(
        ["", "published", "measured"],
        [
            [
                "three scorers",
                "2.45 -> 0.89 ms, 2.75 times",
                f"{scorers['eager']:.2f} -> {scorers['compiled']:.2f} ms, {times(scorers)}",
            ],
            ["whole inference", "6 times; 2 to 4 times", times(whole)],
            ["training", "3 times; 1.4 to 2.5 times", times(trained)],
            ["small batches", "up to 6 times", times(small)],
            ["launching, CUDA graphs", "200 -> 2 us", graphs],
        ],
    )
    lesson.facts |= {"inference": inferred, "training": trained, "device": DEVICE}


def draw(figure, facts: dict[str, dict]) -> None:
    """How many times eager's speed, beside what is published."""
    axis = figure.subplots()
    published = {"three scorers": 2.75, "whole inference": 6, "whole inference, batch 1": 6, "training": 3}
    names = [*next(iter(facts.values()))["inference"], "training"]
    colors = {"braze": "#e4572e", "PyTorch": "#4c6ef5", "published": "#9aa5b1"}
    series = {
        compiler: [
            times["eager"] / times["compiled"] for times in (*found["inference"].values(), found["training"])
        ]
        for compiler, found in facts.items()
    } | {"published": [published.get(name, 0) for name in names]}
    width = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        places = [place + width * (number - (len(series) - 1) / 2) for place in range(len(names))]
        bars = axis.bar(places, values, width * 0.9, label=label, color=colors[label])
        axis.bar_label(bars, [f"{value:.1f}" if value else "" for value in values], fontsize=8)
    axis.axhline(1, color="#1f2933", linewidth=1)
    device = next(iter(facts.values()))["device"]
    axis.set(title=f"Relevance scorers on {device}", ylabel="times eager's speed")
    axis.set_xticks(range(len(names)), [name.replace(", ", ",\n") for name in names])
    axis.legend(frameon=False)


if __name__ == "__main__":
    run(main, __doc__)
