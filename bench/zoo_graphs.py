"""Differential equations (torchdiffeq) and graph networks (torch_geometric) for bench/zoo.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo_cases import Made, case, drawn, image

# ---- torchdiffeq


class Field(nn.Module):
    """dy/dt of a small network."""

    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size, 16), nn.Tanh(), nn.Linear(16, size))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.net(y) * (1 + t)


class Block(nn.Module):
    """A layer whose depth is time, as in neural ODEs."""

    def __init__(self, adjoint: bool, **settings: Any) -> None:
        super().__init__()
        self.field, self.head, self.adjoint, self.settings = Field(4), nn.Linear(4, 3), adjoint, settings
        self.register_buffer("times", torch.linspace(0, 1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import torchdiffeq

        solve = torchdiffeq.odeint_adjoint if self.adjoint else torchdiffeq.odeint
        return self.head(solve(self.field, x, self.times, **self.settings)[-1])


SOLVERS: dict[str, tuple[bool, dict[str, Any]]] = {
    "midpoint with steps": (False, {"method": "midpoint", "options": {"step_size": 0.1}}),
    "heun3": (False, {"method": "heun3"}),
    "explicit adams": (False, {"method": "explicit_adams"}),
    "implicit adams": (False, {"method": "implicit_adams"}),
    "bosh3": (False, {"method": "bosh3", "rtol": 1e-3, "atol": 1e-3}),
    "dopri8": (False, {"method": "dopri8", "rtol": 1e-4, "atol": 1e-4}),
    "adaptive heun": (False, {"method": "adaptive_heun", "rtol": 1e-2, "atol": 1e-2}),
    "adjoint rk4": (True, {"method": "rk4"}),
    "adjoint dopri5": (True, {"method": "dopri5", "rtol": 1e-3, "atol": 1e-3}),
}
for _name, (_adjoint, _settings) in SOLVERS.items():

    @case(f"torchdiffeq block, {_name}")
    def make_block(adjoint: bool = _adjoint, settings: dict[str, Any] = _settings) -> Made:
        return Block(adjoint, **settings).eval(), image(3, 4)


@case("torchdiffeq flow")
def make_flow() -> Made:
    """A continuous normalizing flow: the state is a tuple, the density changes by a trace."""
    from torchdiffeq import odeint

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.field = Field()

        def density(self, t: torch.Tensor, states: tuple) -> tuple:
            z = states[0]
            with torch.enable_grad():
                z = z.detach().requires_grad_(True)
                dz = self.field(t, z)
                trace = sum(
                    torch.autograd.grad(dz[:, i].sum(), z, retain_graph=i == 0)[0][:, i] for i in range(z.shape[1])
                )
            return dz.detach(), -trace.detach().view(-1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            start = (x, torch.zeros(x.shape[0], 1))
            z, change = odeint(self.density, start, torch.tensor([1.0, 0.0]), method="rk4")
            prior = -0.5 * (z[-1].square() + math.log(2 * math.pi)).sum(-1)
            return prior - change[-1].squeeze(-1)

    return Flow().eval(), image(5, 2)


@case("torchdiffeq event")
def make_event() -> Made:
    from torchdiffeq import odeint_event

    class Ball(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gravity = nn.Parameter(torch.tensor([9.8]))

        def forward(self, t: torch.Tensor, state: tuple) -> tuple:
            position, velocity = state
            return velocity, -self.gravity.expand_as(position)

    ball = Ball().eval()

    def bounce(start: torch.Tensor) -> tuple:
        state = (start.abs() + 1, torch.zeros(1))
        times = []
        t = torch.zeros(())
        for _ in range(2):
            t, trajectory = odeint_event(
                ball, state, t, event_fn=lambda _, s: s[0], method="rk4", options={"step_size": 0.05}
            )
            state = (trajectory[0][-1] + 1e-3, -0.8 * trajectory[1][-1])
            times.append(t)
        return torch.stack(times), state[1]

    return bounce, drawn((1,))


@case("torchdiffeq perturbed grid")
def make_grid() -> Made:
    from torchdiffeq import odeint

    field = Field().eval()
    grid = torch.linspace(0, 1, 7)

    def f(y: torch.Tensor) -> torch.Tensor:
        options = {"grid_constructor": lambda func, y0, t: grid, "perturb": True}
        return odeint(field, y, torch.tensor([0.0, 0.35, 1.0]), method="rk4", options=options)

    return f, image(4, 2)


@case("torchdiffeq second order")
def make_second_order() -> Made:
    from torchdiffeq import odeint

    field = Field().eval()

    def f(x: torch.Tensor, v: torch.Tensor) -> tuple:
        def rates(t: torch.Tensor, state: tuple) -> tuple:
            place, speed = state
            return speed, field(t, place) - 0.1 * speed

        return odeint(rates, (x, v), torch.linspace(0, 1, 3), method="euler", options={"step_size": 0.25})

    return f, drawn((4, 2), (4, 2))


# ---- torch_geometric

EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 5, 4], [1, 2, 3, 4, 5, 0, 3, 5, 2, 1]])
GRAPHS = torch.tensor([0, 0, 0, 1, 1, 1])


def features(count: int = 8) -> Callable[[int], tuple]:
    return lambda number: (image(6, count)(number)[0], EDGES)


class Net(nn.Module):
    """Layers over one graph, and a class for each node."""

    def __init__(self, first: nn.Module, second: nn.Module, *extra: Any) -> None:
        super().__init__()
        self.first, self.second, self.extra = first, second, extra

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = nn.functional.dropout(self.first(x, edges, *self.extra).relu(), training=self.training)
        return self.second(x, edges, *self.extra).log_softmax(-1)


def of_layers(make: Callable[[Any], nn.Module]) -> Callable[[], Made]:
    def made() -> Made:
        import torch_geometric.nn

        return make(torch_geometric.nn).eval(), features()

    return made


def mlp(*sizes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]))


DEGREES = torch.tensor([0, 3, 2, 1])
PNA = {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification", "attenuation"]}
NETS: dict[str, Callable[[Any], nn.Module]] = {
    "GCN net": lambda g: Net(g.GCNConv(8, 16), g.GCNConv(16, 4)),
    "GCN net, cached": lambda g: Net(g.GCNConv(8, 16, cached=True), g.GCNConv(16, 4, cached=True)),
    "GAT net": lambda g: Net(g.GATConv(8, 4, heads=2), g.GATConv(8, 4, heads=2, concat=False)),
    "SAGE net": lambda g: Net(g.SAGEConv(8, 16, aggr="max"), g.SAGEConv(16, 4, project=True, normalize=True)),
    "GIN net": lambda g: Net(g.GINConv(mlp(8, 16, 16), train_eps=True), g.GINConv(mlp(16, 16, 4))),
    "GINE net": lambda g: Net(
        g.GINEConv(mlp(8, 16, 8), edge_dim=2), g.GINEConv(mlp(8, 16, 4), edge_dim=2), torch.randn(10, 2)
    ),
    "PNA net": lambda g: Net(g.PNAConv(8, 8, deg=DEGREES, **PNA), g.PNAConv(8, 4, deg=DEGREES, **PNA)),
    "EdgeConv net": lambda g: Net(g.EdgeConv(mlp(16, 16, 8)), g.EdgeConv(mlp(16, 16, 4), aggr="mean")),
    "weighted graph net": lambda g: Net(
        g.GraphConv(8, 8, aggr="max"), g.GCNConv(8, 4, add_self_loops=False), torch.rand(10)
    ),
    "APPNP": lambda g: g.APPNP(K=3, alpha=0.1),
    "ARMA net": lambda g: Net(g.ARMAConv(8, 8, num_stacks=2), g.ARMAConv(8, 4)),
    "FiLM net": lambda g: Net(g.FiLMConv(8, 8), g.FiLMConv(8, 4)),
    "GENConv": lambda g: g.GENConv(8, 8, aggr="softmax", learn_t=True, num_layers=1),
    "GatedGraphConv": lambda g: g.GatedGraphConv(8, 2),
    "SuperGATConv": lambda g: g.SuperGATConv(8, 4, heads=2),
    "NNConv net": lambda g: Net(
        g.NNConv(8, 4, nn.Linear(2, 32)), g.NNConv(4, 4, nn.Linear(2, 16)), torch.randn(10, 2)
    ),
    "RGCN net": lambda g: Net(g.RGCNConv(8, 8, 3), g.RGCNConv(8, 4, 3, num_bases=2), torch.arange(10) % 3),
    "model GCN": lambda g: g.GCN(8, 16, 2, 4, dropout=0.2, norm="batch_norm"),
    "model GraphSAGE": lambda g: g.GraphSAGE(8, 16, 2, 4, jk="cat"),
    "model GIN": lambda g: g.GIN(8, 16, 2, 4, norm="layer_norm"),
    "model GAT": lambda g: g.GAT(8, 16, 2, 4, heads=2, v2=True),
    "model PNA": lambda g: g.PNA(8, 8, 2, 4, deg=DEGREES, **PNA),
    "model GraphUNet": lambda g: g.GraphUNet(8, 8, 4, depth=2, pool_ratios=0.5),
    "model LightGCN": lambda g: Scores(g.LightGCN(6, 8, 2)),
    "model SGFormer": lambda g: Batched(g.SGFormer(8, 8, 4)),
}


class Scores(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.model(edges) * x.mean()


class Batched(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.model(x, edges, GRAPHS)


for _net, _make in NETS.items():
    case(f"torch_geometric {_net}")(of_layers(_make))


@case("torch_geometric MessagePassing subclass")
def make_message_passing() -> Made:
    from torch_geometric.nn import MessagePassing
    from torch_geometric.utils import add_self_loops, degree, softmax

    class Layer(MessagePassing):
        def __init__(self) -> None:
            super().__init__(aggr="add")
            self.lin, self.att = nn.Linear(8, 4), nn.Linear(8, 1)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            edges, _ = add_self_loops(edges, num_nodes=x.size(0))
            row, col = edges
            scale = degree(col, x.size(0), dtype=x.dtype).pow(-0.5)
            norm = scale[row] * scale[col]
            return self.propagate(edges, x=self.lin(x), norm=norm)

        def message(self, x_i: torch.Tensor, x_j: torch.Tensor, norm: torch.Tensor, index: torch.Tensor) -> Any:
            weight = softmax(self.att(torch.cat([x_i, x_j], -1)).squeeze(-1), index)
            return (norm * weight).view(-1, 1) * x_j

        def update(self, out: torch.Tensor) -> torch.Tensor:
            return out.tanh()

    return Layer().eval(), features()


@case("torch_geometric graph classifier")
def make_classifier() -> Made:
    """Pools of several kinds over a batch of graphs."""
    from torch_geometric import nn as gnn

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = gnn.GraphConv(8, 8), gnn.GraphNorm(8)
            self.lin = nn.Linear(24, 3)

        def forward(self, x: torch.Tensor, edges: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
            x = self.norm(self.conv(x, edges).relu(), batch)
            pools = gnn.global_mean_pool(x, batch), gnn.global_max_pool(x, batch), gnn.global_add_pool(x, batch)
            return self.lin(torch.cat(pools, -1))

    return Classifier().eval(), lambda number: (*features()(number), GRAPHS)


AGGREGATIONS: dict[str, Callable[[Any], nn.Module]] = {
    "softmax": lambda a: a.SoftmaxAggregation(learn=True),
    "set2set": lambda a: a.Set2Set(8, processing_steps=2),
    "attentional": lambda a: a.AttentionalAggregation(nn.Linear(8, 1)),
    "median": lambda a: a.MedianAggregation(),
    "sort": lambda a: a.SortAggregation(k=2),
    "several": lambda a: a.MultiAggregation(["mean", "max", "std"]),
    "power mean": lambda a: a.PowerMeanAggregation(),
}
for _name, _make in AGGREGATIONS.items():

    @case(f"torch_geometric aggregation, {_name}")
    def make_aggregation(make: Callable[[Any], nn.Module] = _make) -> Made:
        from torch_geometric.nn import aggr

        return make(aggr).eval(), lambda number: (image(6, 8)(number)[0].abs(), GRAPHS)


@case("torch_geometric pooled by top k")
def make_top_k() -> Made:
    from torch_geometric import nn as gnn

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.pool = gnn.GraphConv(8, 8), gnn.TopKPooling(8, ratio=0.5)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            x = self.conv(x, edges).relu()
            x, edges, _, batch, _, _ = self.pool(x, edges, None, GRAPHS)
            return gnn.global_mean_pool(x, batch)

    return Pooled().eval(), features()


@case("torch_geometric data objects")
def make_data() -> Made:
    """What a loader gives: a Batch of Data, read by its attributes."""
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GCNConv, global_mean_pool

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.lin = GCNConv(8, 8), nn.Linear(8, 2)

        def forward(self, data: Any) -> torch.Tensor:
            x = self.conv(data.x, data.edge_index).relu()
            return self.lin(global_mean_pool(x, data.batch))

    def inputs(number: int) -> tuple:
        graphs = [Data(x=image(6, 8)(number + k)[0], edge_index=EDGES) for k in range(2)]
        return (Batch.from_data_list(graphs),)

    return Model().eval(), inputs


@case("torch_geometric heterogeneous")
def make_heterogeneous() -> Made:
    from torch_geometric.nn import GATConv, HeteroConv, SAGEConv

    net = HeteroConv(
        {
            ("user", "rates", "item"): SAGEConv((8, 4), 6),
            ("item", "rated", "user"): GATConv((4, 8), 6, add_self_loops=False),
        },
        aggr="sum",
    ).eval()
    edges = {("user", "rates", "item"): EDGES, ("item", "rated", "user"): EDGES.flip(0)}
    return net, lambda n: ({"user": image(6, 8)(n)[0], "item": image(6, 4)(n + 1)[0]}, edges)


@case("torch_geometric HGT")
def make_hgt() -> Made:
    from torch_geometric.nn import HGTConv

    kinds = (["user", "item"], [("user", "rates", "item"), ("item", "rated", "user")])
    net = HGTConv({"user": 8, "item": 4}, 8, kinds, heads=2).eval()
    edges = {("user", "rates", "item"): EDGES, ("item", "rated", "user"): EDGES.flip(0)}
    return net, lambda n: ({"user": image(6, 8)(n)[0], "item": image(6, 4)(n + 1)[0]}, edges)


@case("torch_geometric SchNet blocks")
def make_schnet() -> Made:
    """SchNet without its search for neighbours, which needs another library."""
    from torch_geometric.nn.models.schnet import GaussianSmearing, InteractionBlock

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.smear = nn.Embedding(10, 8), GaussianSmearing(0.0, 5.0, 6)
            self.blocks = nn.ModuleList([InteractionBlock(8, 6, 8, 5.0) for _ in range(2)])
            self.lin = nn.Linear(8, 1)

        def forward(self, z: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
            row, col = EDGES
            weight = (pos[row] - pos[col]).norm(dim=-1)
            attributes, h = self.smear(weight), self.embed(z)
            for block in self.blocks:
                h = h + block(h, EDGES, weight, attributes)
            return self.lin(h).sum()

    return Net().eval(), lambda n: (torch.arange(6) % (n % 3 + 2), image(6, 3)(n)[0])


@case("torch_geometric dense")
def make_dense() -> Made:
    from torch_geometric import nn as gnn
    from torch_geometric.utils import to_dense_adj, to_dense_batch

    conv, lin = gnn.DenseGCNConv(8, 8).eval(), nn.Linear(8, 2)

    def f(x: torch.Tensor, edges: torch.Tensor) -> tuple:
        adjacency = to_dense_adj(edges, GRAPHS, max_num_nodes=3)
        nodes, mask = to_dense_batch(x, GRAPHS, max_num_nodes=3, batch_size=2)
        h = conv(nodes, adjacency, mask).relu()
        return gnn.dense_diff_pool(h, adjacency, lin(h), mask)

    return f, lambda n: (image(6, 8)(n)[0], torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]]))


@case("torch_geometric autoencoder")
def make_autoencoder() -> Made:
    from torch_geometric.nn import GAE, GCNConv

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(8, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.conv(x, edges)

    model = GAE(Encoder()).eval()

    def f(x: torch.Tensor, edges: torch.Tensor) -> tuple:
        z = model.encode(x, edges)
        return z, model.recon_loss(z, edges, edges.flip(0).roll(1, 1)), model.decoder.forward_all(z)

    return f, features()


@case("torch_geometric normalisations")
def make_normalisations() -> Made:
    from torch_geometric import nn as gnn

    layers = nn.ModuleList(
        [
            gnn.BatchNorm(8),
            gnn.InstanceNorm(8),
            gnn.LayerNorm(8),
            gnn.GraphNorm(8),
            gnn.PairNorm(),
            gnn.MeanSubtractionNorm(),
        ]
    ).eval()

    def f(x: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        x = layers[0](x)
        for layer in list(layers)[1:]:
            x = layer(x, batch)
        return x

    return f, lambda n: (image(6, 8)(n)[0], GRAPHS)


@case("torch_geometric point clouds")
def make_points() -> Made:
    from torch_geometric.nn import PointNetConv, PPFConv

    net, pairs = PointNetConv(mlp(11, 16, 8), mlp(8, 8, 4)).eval(), PPFConv(mlp(12, 16, 4)).eval()
    return lambda x, pos: (net(x, pos, EDGES), pairs(x, pos, pos / pos.norm(dim=-1, keepdim=True), EDGES)), drawn(
        (6, 8), (6, 3)
    )
