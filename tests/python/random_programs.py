"""Random PyTorch programs as text: made from a seed, shrunk to the few lines that fail.

A program is a list of lines `v7 = torch.add(v3, v1)` over named tensors. It is run eagerly while it is made, so
every line is valid for the shapes before it. *Inexact* values (sums of floats, exp, ...) may differ in their last
bits between eager and a program, so they never reach what turns the last bit into another result: comparisons,
floor, casts to integers, argmax, denominators. Memory that holds one is tracked through views.

As a script:
    python tests/python/random_programs.py --seed 0 --count 1000 --jobs 2
The last line says how many programs ran and which fail.
"""

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import oracle
import processes
import torch
from random_choices import FLOATS, INTEGERS, LARGEST, Choices, make
from random_forms import FORMS


def _rounds_to_half(result: Any, used: list[torch.Tensor]) -> bool:
    """Whether eager rounds something to a half type that a program may keep in float32 until it is stored."""
    written = result if isinstance(result, torch.Tensor) else used[0] if used else None
    if written is None or written.dtype not in (torch.bfloat16, torch.float16):
        return False
    return written is not result or all(
        tensor.untyped_storage()._cdata != result.untyped_storage()._cdata for tensor in used
    )


class Maker(Choices):
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lines: list[str] = []
        self.inputs: list[str] = []
        self.seed = seed

    def add_inputs(self) -> None:
        common = self.shape()
        for k in range(self.random.randint(1, 4)):
            shape = common if self.random.random() < 0.6 else self.shape()
            if self.random.random() < 0.3:
                shape = tuple(1 if self.random.random() < 0.4 else n for n in common)
            dtype = self.random.choice((*FLOATS, *FLOATS[:3], "int64", self.random.choice(INTEGERS), "bool"))
            layout = self.random.choice(["plain", "plain", "plain", "transposed", "strided"])
            self.inputs.append(f"make({shape}, {dtype!r}, {self.random.randrange(1000)}, {layout!r})")
            self.values[f"x{k}"] = eval(self.inputs[-1], {"make": make})

    def add_line(self) -> None:
        form, inexact = self.random.choice(FORMS)
        name = f"v{len(self.lines)}"
        try:
            text = form(self)
        except LookupError:
            return
        line = text if text.startswith("!") else f"{name} = {text}"
        line = line.removeprefix("!")
        scope = dict(self.values)
        versions = {k: v._version for k, v in self.values.items() if isinstance(v, torch.Tensor)}
        try:
            exec(line, scope)
        except Exception:
            # What eager refuses it must refuse before it writes.
            assert all(self.values[k]._version == version for k, version in versions.items()), line
            return
        result = scope.get(name)
        if isinstance(result, torch.Tensor) and (result.numel() > LARGEST or result.is_complex()):
            return
        self.lines.append(line)
        used = [self.values[word] for word in re.findall(r"\b[vx]\d+\b", line) if word in self.values]
        spoilt = inexact or any(not self.is_exact(tensor) for tensor in used)
        spoilt |= _rounds_to_half(result, used)
        if isinstance(result, torch.Tensor):
            if spoilt:
                self.inexact.add(result.untyped_storage()._cdata)
            self.values[name] = result
        if line != f"{name} = {text}" and spoilt and used:
            self.inexact.add(used[0].untyped_storage()._cdata)

    def make(self) -> "Program":
        self.add_inputs()
        wanted = self.random.randint(5, 60)
        for _ in range(wanted * 3):
            if len(self.lines) >= wanted:
                break
            self.add_line()
        names = [k for k, v in self.values.items() if isinstance(v, torch.Tensor)]
        outputs = sorted(set(self.random.sample(names, min(len(names), self.random.randint(1, 4)))) | {names[-1]})
        return Program(self.seed, self.inputs, self.lines, outputs)


class Program:
    def __init__(self, seed: int, inputs: list[str], lines: list[str], outputs: list[str]) -> None:
        self.seed, self.inputs, self.lines, self.outputs = seed, inputs, lines, outputs

    def text(self) -> str:
        names = ", ".join(f"x{k}" for k in range(len(self.inputs)))
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def program({names}):\n{body}    return {', '.join(self.outputs)},\n"

    def repro(self) -> str:
        return f"# seed {self.seed}\ninputs = [{', '.join(self.inputs)}]\n{self.text()}"

    def arguments(self) -> tuple[torch.Tensor, ...]:
        return tuple(eval(text, {"make": make}) for text in self.inputs)

    def function(self, *, wide: bool = False) -> Callable[..., tuple[torch.Tensor, ...]]:
        """wide: with float64 for every floating type."""
        scope = {"torch": torch, "F": torch.nn.functional}
        text = re.sub(r"torch\.b?float(16|32)", "torch.float64", self.text()) if wide else self.text()
        exec(compile(text, f"<random program {self.seed}>", "exec"), scope)
        return scope["program"]

    def failure(self) -> str | None:
        """What differs from eager; None if nothing does, or if braze says that it cannot trace the program."""
        try:
            oracle.check(self.function(), self.arguments(), wider=self.function(wide=True), amplified=True)
        except oracle.Mismatch as mismatch:
            return None if "which cannot be traced" in str(mismatch) else str(mismatch)
        return None

    def is_valid(self) -> bool:
        try:
            self.function()(*self.arguments())
        except Exception:
            return False
        return True


def shrunk(program: Program, fails: Callable[[Program], str | None] = Program.failure) -> Program:
    """The same failure in as few lines, outputs and inputs' special values as simple steps find."""
    wanted = _sort(fails(program))
    changed = True
    while changed:
        changed = False
        candidates = [
            Program(program.seed, program.inputs, program.lines, [name])
            for name in program.outputs
            if len(program.outputs) > 1
        ]
        for k in reversed(range(len(program.lines))):
            rest = program.lines[:k] + program.lines[k + 1 :]
            name = program.lines[k].split(" = ")[0]
            for other in ("", "x0", "x1", "x2", "x3"):
                if other and (not re.fullmatch(r"v\d+", name) or int(other[1]) >= len(program.inputs)):
                    continue
                renamed = [re.sub(rf"\b{name}\b", other, line) for line in rest] if other else rest
                outputs = [other if other and o == name else o for o in program.outputs]
                candidates.append(Program(program.seed, program.inputs, renamed, outputs))
        for candidate in candidates:
            if candidate.is_valid() and _sort(fails(candidate)) == wanted:
                program, changed = candidate, True
                break
    return program


def _sort(failure: str | None) -> str | None:
    """Failures that differ in numbers and names only are the same."""
    return (
        None
        if failure is None
        else re.sub(r"[\d.@%]+|[a-f0-9]{8}|\[.*|at \(.*|@\w+", "", failure.split("\n")[0])[:60]
    )


def program(seed: int) -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Maker(seed).make()


def check(seeds: range) -> None:
    """Raises for the first program that differs from eager, with the few lines of it that do."""
    for seed in seeds:
        one = program(seed)
        if one.failure():
            small = shrunk(one)
            raise AssertionError(f"{small.failure()}\n{small.repro()}")


def _in_child(made: Program) -> str | None:
    """Its failure, from a child process: a crash is a failure like others."""
    [(_, failure)] = processes.results([made], lambda p, _: p.failure(), jobs=1, seconds=60)
    return str(failure) if failure is not None else None


def _batch(seeds: range, say: Callable[[str], None]) -> list[int]:
    """Those of the programs that fail."""
    failing = []
    for seed in seeds:
        say(str(seed))
        if program(seed).failure():
            failing.append(seed)
    return failing


def _failing(options: argparse.Namespace) -> Iterator[int]:
    """Seeds of failing programs, as they are found."""
    end, batch = options.first + options.count, 20
    until = time.monotonic() + options.in_all if options.in_all else float("inf")
    done = 0

    def batches() -> Iterator[range]:
        for first in range(options.first, end, batch):
            if time.monotonic() > until:
                return
            yield range(first, min(first + batch, end))

    for seeds, found in processes.results(batches(), _batch, jobs=options.jobs, seconds=300):
        done += len(seeds)
        if isinstance(found, processes.Crash):
            # One by one: the crash may have hidden others.
            found = [seed for seed in seeds if _in_child(program(seed))]
        yield from found
    options.done = done


def _shrunk(seed: int) -> str:
    made = shrunk(program(seed), _in_child)
    return f"==== {_in_child(made)}\n{made.repro()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", "--first", dest="first", type=int, default=0, help="the first program's")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--in-all", type=int, default=0, help="seconds after which no program is begun")
    parser.add_argument("--shrink-seconds", type=int, default=600, help="for one failure")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--most", type=int, default=10, help="failures of one kind to shrink")
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    failing, chosen = [], []
    for seed in _failing(options):
        failure = _in_child(program(seed)) or "differs only after other programs of the same process"
        kind = _sort(failure) or ""
        kinds[kind] += 1
        failing.append(seed)
        print(f"seed {seed}: {failure}", flush=True)
        if kinds[kind] <= options.most and not options.no_shrink:
            chosen.append(seed)
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}", flush=True)
    for _, text in processes.results(
        chosen, lambda seed, _: _shrunk(seed), jobs=options.jobs, seconds=options.shrink_seconds
    ):
        print(text, flush=True)
    seeds = f": seeds {' '.join(map(str, sorted(failing)))}" if failing else ""
    print(f"{options.done} of {options.count} programs run from seed {options.first}, {len(failing)} fail{seeds}")
    return bool(failing or options.done < options.count)


if __name__ == "__main__":
    sys.exit(main())
