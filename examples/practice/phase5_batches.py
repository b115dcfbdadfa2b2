"""Practice 5: eager against compiled by batch size, cold time included.

Compiling pays when calls get faster, and when there are so many calls that they win back what the first one cost.
Both depend on the batch size.
"""

import torch
from lesson import NEVER, Lesson, first_call_ms, run
from torch import nn

CALLS = 1000  #: How many calls a user of one batch size is taken to make.


class Block(nn.Module):
    """A residual block: small operators around two products of matrices."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def measure(lesson: Lesson, model: nn.Module, batch: int) -> dict:
    x = torch.randn(batch, 256)
    torch._dynamo.reset()
    compiled = torch.compile(model, dynamic=False)  # A program for this batch size alone.
    cold = first_call_ms(lambda: compiled(x))
    torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-4)
    times = lesson.median_us(eager=lambda: model(x), compiled=lambda: compiled(x))
    return {"batch": batch, "cold_ms": max(0.0, cold - times["eager"] / 1e3), **times}


def pays_after(row: dict) -> float | None:
    """How many calls win the cold time back; None if they never do."""
    gain = row["eager"] - row["compiled"]
    return row["cold_ms"] * 1e3 / gain if gain > 0 else None


def pays_from(rows: list[dict], calls: float) -> int | None:
    """The batch size from which on so many calls are enough at every size."""
    from_size = None
    for row in reversed(rows):
        after = pays_after(row)
        if after is None or after > calls:
            break
        from_size = row["batch"]
    return from_size


def main(lesson: Lesson) -> None:
    torch._inductor.config.force_disable_caches = True  # Every size is compiled, not found on disk.
    sizes = [1, 16] if lesson.quick else [1, 2, 4, 8, 16, 32, 64, 128, 256]
    model = nn.Sequential(Block(), Block()).eval()
    with torch.no_grad():
        torch.compile(lambda x: x + 1)(torch.ones(2))  # What a process pays once is not a batch size's.
        rows = [measure(lesson, model, batch) for batch in sizes]

    lesson.section("By batch size")
    lesson.table(
        ["batch", "eager us", "compiled us", "times as fast", "cold ms", "pays after calls"],
        [
            [
                row["batch"],
                f"{row['eager']:.0f}",
                f"{row['compiled']:.0f}",
                f"{row['eager'] / row['compiled']:.2f}",
                f"{row['cold_ms']:.1f}",
                f"{pays_after(row):.0f}" if pays_after(row) is not None else NEVER,
            ]
            for row in rows
        ],
    )
    lesson.section("The size from which it pays")
    lesson.table(
        ["calls of a size", "pays from batch"],
        [[calls, pays_from(rows, calls) or NEVER] for calls in (10, 100, CALLS, 100_000)],
    )
    lesson.facts["rows"] = rows


def draw(figure, facts: dict[str, dict]) -> None:
    """Beside eager's times in the same run: calls alone, and so many calls with the first one in them."""
    warm, total = figure.subplots(1, 2, sharex=True)
    colors = {"braze": "#e4572e", "PyTorch": "#4c6ef5"}
    for compiler, found in facts.items():
        rows = found["rows"]
        sizes = [row["batch"] for row in rows]
        whole = [(row["cold_ms"] * 1e3 / CALLS + row["compiled"]) / row["eager"] for row in rows]
        warm.plot(
            sizes, [row["compiled"] / row["eager"] for row in rows], "o-", color=colors[compiler], label=compiler
        )
        total.plot(sizes, whole, "o-", color=colors[compiler], label=compiler)
    warm.set(title="A call", ylabel="time, eager = 1", ylim=(0, None))
    total.set(title=f"The first call and {CALLS:,} more", ylabel="time, eager = 1", yscale="log")
    for axis in (warm, total):
        axis.axhline(1, color="#1f2933", linewidth=1)
        axis.set(xscale="log", xlabel="batch size")
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.minorticks_off()
        axis.legend(frameon=False)


if __name__ == "__main__":
    run(main, __doc__)
