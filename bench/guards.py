"""What checking guards costs: nanoseconds a check, for a small function, an MLP and BERT-base.

The guards are those that a captured call of the model needs: PyTorch's modes, every module's type, tables and
flags, every hook dict empty, every parameter's properties, and that no two parameters came to share memory. Limits:
1 us for the small function, 10 us for BERT-base with its 200 parameters.

    python bench/guards.py [--json] [--times N]
"""

import argparse
import json
import sys

import torch

from braze._C import _guards

LIMITS_NS = {"x + scale": 1_000, "BERT-base": 10_000}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
SCALE = 2


def small_function():
    """def f(x): return x + SCALE"""
    x = torch.ones(10)
    guards = _guards.GuardSet()
    source = guards.argument(0, "x")
    guards.call_shape(x)
    guards.torch_state()
    guards.tensor(source, x)
    guards.want(source)
    guards.constant(guards.dict_item(guards.object(globals(), "G"), "SCALE"), SCALE)
    return guards, (x,)


class ModuleGuards:
    """Guards on a module and everything below it."""

    def __init__(self, model, inputs):
        self.guards = _guards.GuardSet()
        self.parameters = {}  # by source: parameters and buffers
        self.guards.call_shape(model, *inputs)
        self.guards.torch_state()
        self.walk(self.guards.argument(0, "self"), model)
        for i, value in enumerate(inputs):
            source = self.guards.argument(i + 1, f"input{i}")
            self.guards.tensor(source, value)
            self.parameters[source] = value
        self.guards.storages(list(self.parameters), list(self.parameters.values()))
        for source in self.parameters:
            self.guards.want(source)

    def walk(self, source, module):
        guards, kind = self.guards, type(module)
        guards.type(source, kind)
        held = guards.object(kind, kind.__name__)
        guards.identity(guards.type_attribute(held, "forward"), kind.forward)
        for name in ("_call_impl", "__getattribute__", "__getattr__"):
            guards.identity(guards.type_attribute(held, name), getattr(kind, name))
        guards.absent(guards.attribute(source, "forward"))
        guards.constant(guards.attribute(source, "training"), module.training)
        for hooks in HOOKS:
            guards.length(guards.attribute(source, hooks), 0)
        for table in ("_parameters", "_buffers", "_modules"):
            entries = guards.attribute(source, table)
            guards.dict_keys(entries, module.__dict__[table])
            for name, value in module.__dict__[table].items():
                entry = guards.dict_item(entries, name)
                if isinstance(value, torch.nn.Module):
                    self.walk(entry, value)
                elif value is None:
                    guards.constant(entry, None)
                else:
                    guards.tensor(entry, value)
                    self.parameters[entry] = value


def mlp():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
    inputs = (torch.ones(2, 8),)
    return ModuleGuards(model, inputs).guards, (model, *inputs)


def bert():
    """Every module and parameter of BERT-base; only narrower, since guards do not look at the data."""
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=24, intermediate_size=48, vocab_size=64)
    model = BertModel(config).eval()
    inputs = (torch.ones(1, 8, dtype=torch.int64),)
    return ModuleGuards(model, inputs).guards, (model, *inputs)


CASES = {"x + scale": small_function, "MLP": mlp, "BERT-base": bert}


def measure(make, times):
    guards, arguments = make()
    program = guards.program()
    tensors = sum(" is a " in text and " of torch." in text for text in program.texts())
    count = len(program.texts())
    program.time_check(max(times // 10, 1), *arguments)
    best = min(program.time_check(times, *arguments) for _ in range(7))
    return {"ns": best, "guards": count, "tensors": tensors, "instructions": len(program)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--times", type=int, default=300, help="checks a measurement; the best of seven counts")
    options = parser.parse_args()
    rows = {name: measure(make, options.times) for name, make in CASES.items()}
    if options.json:
        print(json.dumps(rows))
    else:
        print(f"{'case':12} {'ns a check':>10} {'guards':>7} {'tensors':>8} {'instructions':>13} {'limit, ns':>10}")
        for name, row in rows.items():
            limit = LIMITS_NS.get(name, "")
            counts = f"{row['guards']:7} {row['tensors']:8} {row['instructions']:13}"
            print(f"{name:12} {row['ns']:10.0f} {counts} {limit:>10}")
    return any(rows[name]["ns"] > limit for name, limit in LIMITS_NS.items())


if __name__ == "__main__":
    sys.exit(main())
