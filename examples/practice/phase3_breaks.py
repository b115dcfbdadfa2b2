"""Practice 3: graph breaks one by one, and what to write instead.

Where capture meets something that it cannot put into a graph, the graph ends, Python goes on for a moment, and a
new graph begins. Every pair here is a function that breaks, and one that does the same without.
"""

import math
import os
import time

import numpy
import torch
from lesson import Lesson, run

stamps: dict[str, float] = {}
nowhere = open(os.devnull, "w")  # noqa: SIM115  (what is printed here is not the lesson)


def branch(x):
    y = x * 2
    if y.sum() > 0:
        return torch.relu(y + 1)
    return y - 1


def branch_fixed(x):
    y = x * 2
    return torch.where(y.sum() > 0, torch.relu(y + 1), y - 1)


def number(x):
    biggest = x.abs().max().item()
    return x / math.sqrt(biggest + 1)


def number_fixed(x):
    return x / torch.sqrt(x.abs().max() + 1)


def mask(x):
    return x[x > 0].sum() * 2


def mask_fixed(x):
    return torch.where(x > 0, x, 0).sum() * 2


def through_numpy(x):
    y = torch.sin(x)
    return torch.from_numpy(numpy.float_power(y.numpy(), 2)) + 1


def through_numpy_fixed(x):
    return torch.float_power(torch.sin(x), 2) + 1


def printing(x):
    y = torch.tanh(x)
    print("mean", y.mean(), file=nowhere)
    return y * 3


def printing_fixed(x):
    y = torch.tanh(x)
    return y * 3, y.mean()  # The caller prints it.


def clock(x):
    y = torch.softmax(x, -1)
    stamps["softmax"] = time.time()
    return -(y * torch.log(y)).sum(-1)


def clock_fixed(x):
    y = torch.softmax(x, -1)
    return -(y * torch.log(y)).sum(-1)  # The caller looks at the clock.


@torch.compiler.disable
def helper(x):
    return x + 1


def calls_disabled(x):
    return helper(x.cos()).sin()


def calls_disabled_fixed(x):
    return (x.cos() + 1).sin()


PAIRS = [
    ("a branch on a value", branch, branch_fixed, "torch.where"),
    (".item()", number, number_fixed, "keep it a tensor"),
    ("a boolean mask", mask, mask_fixed, "torch.where"),
    ("through NumPy", through_numpy, through_numpy_fixed, "the operator of torch"),
    ("print", printing, printing_fixed, "return it, print outside"),
    ("a function in C", clock, clock_fixed, "call it outside"),
    ("a disabled function", calls_disabled, calls_disabled_fixed, "write it inside"),
]


def first_tensor(result):
    return result[0] if isinstance(result, tuple) else result


def look(lesson: Lesson, fn, x) -> dict:
    torch._dynamo.reset()
    found = torch._dynamo.explain(fn)(x)
    reason = found.break_reasons[0].reason if found.break_reasons else ""
    compiled = torch.compile(fn)
    same = torch.allclose(first_tensor(compiled(x)), first_tensor(fn(x)), atol=1e-5)
    times = lesson.median_us(plain=lambda: fn(x), compiled=lambda: compiled(x))
    return {
        "graphs": found.graph_count,
        "breaks": found.graph_break_count,
        "reason": reason.splitlines()[0] if reason else "",
        "same": same,
        **times,
    }


def main(lesson: Lesson) -> None:
    x = torch.randn(64, 256)
    with torch.no_grad():
        found = [(name, look(lesson, before, x), look(lesson, after, x), fix) for name, before, after, fix in PAIRS]

    lesson.section("Before and after")
    lesson.table(
        ["it breaks at", "breaks", "then", "graphs", "then", "us", "then", "results", "instead"],
        [
            [
                name,
                before["breaks"],
                after["breaks"],
                before["graphs"],
                after["graphs"],
                f"{before['compiled']:.0f}",
                f"{after['compiled']:.0f}",
                "equal" if before["same"] and after["same"] else "DIFFER",
                fix,
            ]
            for name, before, after, fix in found
        ],
    )
    lesson.section("What the compiler says of each")
    for name, before, _, _ in found:
        lesson.say(f"{name}: {before['reason'] or 'no break'}")

    lesson.section("The same as an error")
    torch._dynamo.reset()
    try:
        with torch.no_grad():
            torch.compile(branch, fullgraph=True)(x)
        lesson.say("no error")
    except Exception as error:
        lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
        lesson.say(type(error).__name__)
        for line in lines[:4]:
            lesson.say(f"  {line.strip().replace(__file__, 'phase3_breaks.py')}")
    lesson.facts["pairs"] = [(name, before["compiled"], after["compiled"]) for name, before, after, _ in found]


def draw(figure, facts: dict[str, dict]) -> None:
    """What a break costs a call."""
    axes = figure.subplots(1, len(facts), squeeze=False, sharey=True)[0]
    for axis, (compiler, found) in zip(axes, facts.items(), strict=True):
        places = range(len(found["pairs"]))
        axis.barh(
            [p - 0.2 for p in places], [row[1] for row in found["pairs"]], 0.4, color="#9aa5b1", label="before"
        )
        axis.barh(
            [p + 0.2 for p in places], [row[2] for row in found["pairs"]], 0.4, color="#e4572e", label="fixed"
        )
        axis.set(title=compiler, xlabel="us a call", yticks=places, yticklabels=[row[0] for row in found["pairs"]])
    axes[0].invert_yaxis()
    axes[-1].legend(frameon=False)


if __name__ == "__main__":
    run(main, __doc__)
