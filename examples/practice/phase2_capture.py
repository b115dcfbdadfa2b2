"""Practice 2: what capture sees, node by node; what it guards; when it compiles anew.

Capturing runs the function's bytecode and keeps the operators on tensors. Everything else that it met (types,
numbers, globals) becomes a guard: the program is replayed as long as all of them hold.
"""

import re

import torch
from lesson import IS_BRAZE, Lesson, first_call_ms, logs, run
from torch._dynamo.utils import counters

scale = 2.0


def f(x, w, activate=True):
    y = x @ w
    if activate:
        y = torch.relu(y)
    return y * scale


def show_nodes(lesson: Lesson) -> None:
    """A backend sees the captured graph: that is what it is for."""
    rows = []

    def backend(gm, example_inputs):
        for node in gm.graph.nodes:
            line = (node.stack_trace or "").strip().splitlines()
            at = [part for part in line if "line " in part][-1:]
            place = at[0].split("line ")[1].split(",")[0] if at else ""
            rows.append([node.op, node.name, node.target, ", ".join(map(str, node.args)), place])
        return gm.forward

    torch.compile(f, backend=backend)(torch.randn(4, 8), torch.randn(8, 8))
    # A function is known by its name; its address differs from run to run.
    rows = [[op, name, getattr(target, "__name__", target), *rest] for op, name, target, *rest in rows]
    lesson.table(["node", "name", "operator", "arguments", "line"], rows)


def show_guards(lesson: Lesson) -> None:
    found = torch._dynamo.explain(f)(torch.randn(4, 8), torch.randn(8, 8))
    guards = found.out_guards or []
    for guard in guards:
        lesson.say(guard if isinstance(guard, str) else f"{guard.create_fn_name()} {guard.name}".strip())
    lesson.facts["guards"] = len(guards)


def show_recompiles(lesson: Lesson) -> None:
    """One thing changes from each call to the next."""
    global scale
    w = torch.randn(8, 8)
    calls = [
        ("the first call", lambda: (torch.randn(4, 8), w)),
        ("other numbers", lambda: (torch.randn(4, 8), w)),
        ("6 rows, not 4", lambda: (torch.randn(6, 8), w)),
        ("9 rows", lambda: (torch.randn(9, 8), w)),
        ("11 rows", lambda: (torch.randn(11, 8), w)),
        ("float64", lambda: (torch.randn(4, 8).double(), w.double())),
        ("activate=False", lambda: (torch.randn(4, 8), w, False)),
        ("scale = 3.0", lambda: (torch.randn(4, 8), w)),
        ("the same again", lambda: (torch.randn(4, 8), w)),
    ]
    compiled = torch.compile(f)
    torch._dynamo.reset()
    counters.clear()
    rows, before = [], 0
    with logs(recompiles=True) as log:
        for what, arguments in calls:
            if what == "scale = 3.0":
                scale = 3.0
            said = len(log.getvalue())
            given = arguments()
            ms = first_call_ms(lambda given=given: compiled(*given))
            graphs = counters["stats"]["unique_graphs"]
            reason = _reason(log.getvalue()[said:]) if graphs > before else ""
            rows.append([what, "captured" if graphs > before else "replayed", f"{ms * 1e3:.0f}", reason])
            before = graphs
    scale = 2.0
    lesson.table(["call", "how", "us", "the guard that failed"], rows)
    lesson.facts["calls"] = [(what, how, float(us)) for what, how, us, _ in rows]


def _reason(text: str) -> str:
    """What a log of recompilations says of one call, of the program that was made last."""
    if IS_BRAZE:
        return text.strip().rpartition("\n")[2].partition("] f: ")[2]
    found = re.search(r"- \d+/\d+: (.*)", text)
    return found[1].partition(" # ")[0].strip() if found else ""


def main(lesson: Lesson) -> None:
    with torch.no_grad():
        lesson.section("Nodes")
        show_nodes(lesson)
        lesson.section("Guards")
        show_guards(lesson)
        lesson.section("Calls, and what makes them recompile")
        show_recompiles(lesson)


def draw(figure, facts: dict[str, dict]) -> None:
    """Call after call on a logarithmic axis: captures tower over replays."""
    axes = figure.subplots(1, len(facts), squeeze=False, sharey=True)[0]
    for axis, (compiler, found) in zip(axes, facts.items(), strict=True):
        names = [name for name, _, _ in found["calls"]]
        colors = ["#e4572e" if how == "captured" else "#9aa5b1" for _, how, _ in found["calls"]]
        axis.bar(range(len(names)), [us for _, _, us in found["calls"]], color=colors)
        axis.set(yscale="log", title=f"{compiler}: red calls were captured", ylabel="us, this call")
        axis.set_xticks(range(len(names)), names, rotation=50, ha="right")


if __name__ == "__main__":
    run(main, __doc__)
