"""Practice 1: backends of torch.compile on an MLP, the first call against later ones.

A backend gets the graph that was captured and returns something that runs it. Changing the backend while the rest
stays the same shows what capture alone costs ("eager"), what a prepared graph changes ("aot_eager"), and what
generated code is worth.
"""

import torch
from lesson import IS_BRAZE, Lesson, apart, first_call_ms, run
from torch import nn


def my_backend(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]):
    """A backend of one's own: looks at the graph, and runs it as it is."""
    my_backend.seen = [str(node.target) for node in gm.graph.nodes if node.op.startswith("call")]
    return gm.forward


# Under PyTorch "braze" is found as the entry point of an installed package: Dynamo captures, braze compiles.
BACKENDS = ["eager", "aot_eager", "braze", my_backend] if IS_BRAZE else [
    "eager", "aot_eager", "inductor", "braze", my_backend,
]  # fmt: skip


def name_of(backend) -> str:
    return backend if isinstance(backend, str) else backend.__name__


def measure(lesson: Lesson, backend) -> dict:
    """In a process of its own: each backend pays for all that it needs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).eval()
    x = torch.randn(64, 512)
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        expected = model(x)
        first = first_call_ms(lambda: compiled(x))
        times = lesson.median_us(plain=lambda: model(x), compiled=lambda: compiled(x))
        error = (compiled(x) - expected).abs().max().item()
    return {"first_ms": first, **times, "error": error, "seen": getattr(my_backend, "seen", [])}


def main(lesson: Lesson) -> None:
    lesson.section("Backends that are there")
    lesson.say(", ".join(torch.compiler.list_backends(None)))
    found = {name_of(backend): apart(measure, lesson, backend) for backend in BACKENDS}

    lesson.section("The first call and later ones")
    lesson.table(
        ["backend", "first call ms", "later us", "without torch.compile us", "times as fast", "largest difference"],
        [
            [
                name,
                f"{row['first_ms']:.1f}",
                f"{row['compiled']:.0f}",
                f"{row['plain']:.0f}",
                f"{row['plain'] / row['compiled']:.2f}",
                f"{row['error']:.1e}",
            ]
            for name, row in found.items()
        ],
    )
    lesson.section("What the backend of one's own was given")
    for target in found["my_backend"]["seen"]:
        lesson.say(target)
    lesson.facts |= found


def draw(figure, facts: dict[str, dict]) -> None:
    """First calls on a logarithmic axis, later ones beside what the model takes without torch.compile."""
    first, later = figure.subplots(1, 2)
    bars = [(f"{compiler}: {name}", row) for compiler, rows in facts.items() for name, row in rows.items()]
    colors = ["#e4572e" if label.startswith("braze") else "#9aa5b1" for label, _ in bars]
    places, labels = range(len(bars)), [label for label, _ in bars]
    first.barh(places, [row["first_ms"] for _, row in bars], color=colors)
    first.set(xscale="log", xlabel="ms", title="The first call", yticks=places, yticklabels=labels)
    later.barh(places, [row["compiled"] / row["plain"] for _, row in bars], color=colors)
    later.axvline(1, color="#1f2933", linewidth=1)
    later.set(
        xlabel="time of a call, without torch.compile = 1", title="Later calls", yticks=places, yticklabels=[]
    )
    for axis in (first, later):
        axis.invert_yaxis()


if __name__ == "__main__":
    run(main, __doc__)
