"""A small GPT-2 trained on text: eager PyTorch and braze, each in a fresh process from the same seed.

    python bench/training.py                # eager and braze
    python bench/training.py --compare      # torch.compile too
    python bench/training.py --steps 400

Prints losses, speed and peak memory, and draws the loss curves on top of each other to out/training.png.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import measure

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "out" / "training.png"
EAGER, BRAZE, INDUCTOR = "eager", "braze.compile", "torch.compile"
COLORS = {EAGER: "#9aa5b1", BRAZE: "#e4572e", INDUCTOR: "#4c6ef5"}
ROWS, LENGTH = 8, 64
WARM = 10  # Steps that do not count for the speed.


def text() -> bytes:
    """What the model learns to write: this project's own documents."""
    return "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))).encode()


def train(side: str, steps: int) -> dict[str, Any]:
    """Losses, seconds a step and the peak of this process's memory."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": LENGTH}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, bos_token_id=0, eos_token_id=0, **sizes)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    data = torch.frombuffer(bytearray(text()), dtype=torch.uint8).long()
    if side == BRAZE:
        import braze

        compiled = braze.compile(model)
    else:
        compiled = torch.compile(model) if side == INDUCTOR else model
    losses, times = [], []
    batches = torch.Generator().manual_seed(1)
    for _ in range(steps):
        places = torch.randint(0, len(data) - LENGTH, (ROWS,), generator=batches).tolist()
        ids = torch.stack([data[place : place + LENGTH] for place in places])
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = compiled(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"losses": losses, "first_s": times[0], "warm_s": statistics.median(times[WARM:]), "peak_bytes": peak}


def in_fresh_process(side: str, steps: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--side", side, "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def difference(results: dict[str, dict[str, Any]], side: str) -> float:
    """The greatest distance of a loss from eager's."""
    return max(abs(a - b) for a, b in zip(results[side]["losses"], results[EAGER]["losses"], strict=True))


def row(facts: dict[str, Any]) -> str:
    return f"first step {facts['first_s'] * 1e3:.0f} ms, later ones {facts['warm_s'] * 1e3:.1f} ms"


def show(results: dict[str, dict[str, Any]], console: Console) -> None:
    table = Table(title="GPT-2 of 4 layers, trained", title_justify="left", title_style="bold")
    table.add_column("", style="bold")
    headings = ("first\nloss", "last\nloss", "furthest\nfrom eager", "first step\nms", "later ones\nms")
    for heading in (*headings, "eager's time\nover it", "peak of the\nprocess, MB"):
        table.add_column(heading, justify="right")
    for side, facts in results.items():
        table.add_row(
            side,
            f"{facts['losses'][0]:.4f}",
            f"{facts['losses'][-1]:.4f}",
            "" if side == EAGER else f"{difference(results, side):.1e}",
            f"{facts['first_s'] * 1e3:.0f}",
            f"{facts['warm_s'] * 1e3:.1f}",
            f"{results[EAGER]['warm_s'] / facts['warm_s']:.2f}x",
            f"{facts['peak_bytes'] / 1e6:.0f}",
        )
    console.print(table)


def draw(results: dict[str, dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (losses, speed) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=(3, 1), layout="constrained")
    for side, facts in results.items():
        width = 5 if side == EAGER else 1.4  # Eager's lies below, as a band.
        losses.plot(facts["losses"], color=COLORS[side], linewidth=width, label=side)
    losses.set_xlabel("step")
    losses.set_ylabel("loss")
    losses.legend(frameon=False)
    warm = [facts["warm_s"] * 1e3 for facts in results.values()]
    speed.bar(list(results), warm, color=[COLORS[side] for side in results])
    speed.set_ylabel("ms a step")
    for axes in (losses, speed):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true", help="put torch.compile beside")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--side", choices=(EAGER, BRAZE, INDUCTOR), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON as well")
    options = parser.parse_args()
    if options.steps <= WARM:
        parser.error(f"more than {WARM} steps are needed, which warm up")
    if options.side:
        print(json.dumps(train(options.side, options.steps)))
        return 0
    console = Console(stderr=True)
    sides = (EAGER, BRAZE, *((INDUCTOR,) if options.compare else ()))
    results = dict(measure.as_measured(sides, lambda side: in_fresh_process(side, options.steps), row))
    if options.json:
        print(json.dumps(results))
    show(results, console)
    draw(results, PICTURE)
    console.print(f"The loss curves: {PICTURE.relative_to(ROOT)}")
    return 0 if difference(results, BRAZE) < 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
