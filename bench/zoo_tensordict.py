"""Programs with tensordict for bench/zoo.py: dicts of tensors that act as tensors, and modules of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo_cases import Made, case, drawn


def of_dict(function: Callable[..., Any]) -> Callable[[], Made]:
    """A case whose call is given one dict, with "a" and "b", "c" in it."""

    def make() -> Made:
        from tensordict import TensorDict

        numbers = drawn((4, 3), (4, 3))

        def inputs(number: int) -> tuple:
            a, c = numbers(number)
            return (TensorDict({"a": a, "b": {"c": c}}, batch_size=[4]),)

        return function, inputs

    return make


@case("tensordict")
def make_tensordict() -> Made:
    from tensordict import TensorDict

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        td = TensorDict({"a": x, "b": {"c": y}}, batch_size=[4])
        td["d"] = td["a"] * 2 + td["b", "c"]
        return (td + 1)["d"] + td.select("a")["a"]

    return f, drawn((4, 3), (4, 3))


@case("tensordict module")
def make_tensordict_module() -> Made:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    net = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 4), in_keys=["a"], out_keys=["h"]),
        TensorDictModule(nn.Linear(4, 2), in_keys=["h"], out_keys=["out"]),
    ).eval()
    return lambda x: net(TensorDict({"a": x}, batch_size=[5]))["out"], drawn((5, 3))


@case("tensordict stacked")
def make_stacked() -> Made:
    from tensordict import TensorDict

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple:
        dicts = [TensorDict({"a": x * k, "b": y}, batch_size=[4]) for k in range(3)]
        return torch.stack(dicts)["a"], torch.cat(dicts, 0)["b"]

    return f, drawn((4, 3), (4, 3))


@case("tensordict indexed")
@of_dict
def indexed(td: Any) -> tuple:
    rows = td[torch.tensor([0, 2])]
    return td[1:3]["a"], td[0]["b", "c"], rows["a"], td[:, None].batch_size, td.split(2)[1]["a"]


@case("tensordict shapes")
@of_dict
def shapes(td: Any) -> tuple:
    td = td.unsqueeze(-1).expand(4, 2).reshape(8).view(2, 4).permute(1, 0)
    return td["a"] * 2, td.flatten_keys(".")["b.c"] + 1


@case("tensordict applied")
@of_dict
def applied(td: Any) -> tuple:
    td = td.apply(lambda value: value * 2 + 1)
    named = td.named_apply(lambda name, value: value + 1 if name == "a" else value)
    named.update({"z": td["a"].sum(-1)})
    return named["a"], named["b", "c"], named["z"], (td * td)["a"]


@case("tensordict changed")
@of_dict
def changed(td: Any) -> Any:
    td["h"] = td["a"] + 1
    td.set_("a", td["h"] * 2)
    td.pop("h")
    for key, value in list(td.items()):
        td[key] = value * 1
    with td.unlock_():
        td["k"] = td["a"]
    return td


@case("tensordict selected")
@of_dict
def selected(td: Any) -> tuple:
    rest, flat = td.exclude("a"), td.flatten_keys()
    gathered = td.gather(0, torch.tensor([1, 0]))
    chosen = td.select("a", ("b", "c"))
    return chosen, rest["b", "c"], flat.unflatten_keys()["b", "c"], td.clone(), td.to(torch.float64), gathered


@case("tensordict mapped")
@of_dict
def mapped(td: Any) -> tuple:
    return torch.vmap(lambda one: one["a"] * 2 + one["b", "c"])(td), torch.vmap(torch.sum)(td["a"])


@case("tensordict actor")
def make_actor() -> Made:
    from tensordict import TensorDict
    from tensordict.nn import (
        ProbabilisticTensorDictModule,
        ProbabilisticTensorDictSequential,
        TensorDictModule,
    )
    from tensordict.nn.distributions import NormalParamExtractor
    from torch.distributions import Normal

    net = nn.Sequential(nn.Linear(3, 8), NormalParamExtractor())
    actor = ProbabilisticTensorDictSequential(
        TensorDictModule(net, in_keys=["seen"], out_keys=["loc", "scale"]),
        ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"], out_keys=["action"], distribution_class=Normal, return_log_prob=True
        ),
    ).eval()

    def f(x: torch.Tensor) -> dict:
        td = actor(TensorDict({"seen": x}, batch_size=[4]))
        return {key: td[key] for key in sorted(td.keys())}

    return f, drawn((4, 3))


@case("tensordict parameters")
def make_parameters() -> Made:
    from tensordict import TensorDict

    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    parameters = TensorDict.from_module(net)

    def f(x: torch.Tensor) -> torch.Tensor:
        halved = parameters * 0.5
        with halved.to_module(net):
            return net(x)

    return f, drawn((4, 3))


@case("tensordict class")
def make_class() -> Made:
    from tensordict import TensorClass

    class Data(TensorClass["nocast"]):
        a: torch.Tensor
        b: torch.Tensor
        name: str = "x"

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple:
        data = Data(a=x, b=y, batch_size=[4])
        data = data.replace(a=data.a * 2)
        stacked = torch.stack([data, data + 1])
        return stacked.a, stacked.b, (data * 2).a, data[0].b

    return f, drawn((4, 3), (4, 3))
