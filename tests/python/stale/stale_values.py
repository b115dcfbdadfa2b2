"""Values of tensors that operators, constructors and indexing read: other values, other results."""

import torch
from staleness import case, module, tensor

PRELUDE = "import copy, io, math, pickle\nF = torch.nn.functional\n"


def reads(name, expression, first, second, setup="", of_global=True):
    """`t` has another value in the third call: as an argument, and as a global that is written."""

    def source(signature):
        return PRELUDE + setup + f"\ndef f({signature}):\n    return {expression}"

    @case(name=f"{name}_of_argument")
    def argument():
        m = module(source("x, t"))
        yield m.f, tensor(), torch.tensor(first)
        yield tensor(), torch.tensor(second)

    if not of_global:
        return

    @case(name=f"{name}_of_global")
    def variable():
        m = module(source("x"), t=torch.tensor(first))
        yield m.f, tensor()
        m.t.copy_(torch.tensor(second))


reads("tensor", "x + torch.tensor([t, 2.0, 3.0, 4.0])", 1.0, 100.0)
reads("tensor_nested", "x.view(2, 2) + torch.tensor([[t, 2.0], [3.0, t]])", 1.0, 100.0)
reads("tensor_of_computed", "x + torch.tensor([t + 1, 2.0, 3.0, 4.0])", 1.0, 100.0)
reads("tensor_of_int", "x + torch.tensor([t, 2, 3, 4])", 1, 100)
reads("tensor_of_bool", "x + torch.tensor([t, False, True, True])", True, False)
reads("tensor_itself", "x + torch.tensor(t)", 1.0, 100.0)
reads("as_tensor_of_list", "x + torch.as_tensor([t, 2.0, 3.0, 4.0])", 1.0, 100.0)
reads("as_tensor", "x + torch.as_tensor(t)", 1.0, 100.0)
reads("new_tensor", "x + x.new_tensor([t, 2.0, 3.0, 4.0])", 1.0, 100.0)
reads("new", "x + x.new([t, 2.0, 3.0, 4.0])", 1.0, 100.0)
reads("float_tensor", "x + torch.FloatTensor([t, 2.0, 3.0, 4.0])", 1.0, 100.0)
reads("tensor_split", "torch.tensor_split(x, t)", [1, 2], [2, 3])
reads("tensor_split_sections", "torch.tensor_split(x, t)", 2, 4)
reads("tensor_split_method", "x.tensor_split(t)", [1], [3])
reads("full", "x + torch.full((4,), t)", 1.0, 100.0)
reads("full_like", "x + torch.full_like(x, t)", 1.0, 100.0)
reads("fill", "torch.empty(4).fill_(t) + x", 1.0, 100.0)
reads("arange", "torch.arange(t) + 1", 3, 5)
reads("linspace", "torch.linspace(t, 10.0, 4) + x", 1.0, 5.0)
reads("ones_of_size", "torch.ones(t) + 1", 3, 5)
reads("slice_start", "x[t:] * 2", 1, 3)
reads("slice_stop", "x[:t] * 2", 1, 3)
reads("slice_step", "x[::t] * 2", 1, 2)
reads("select", "x[t] * 2", 1, 3)
reads("index_of_tuple", "x.view(2, 2)[t, 1] * 2", 0, 1)
reads("mask", "x[t] * 2", [True, False, True, False], [True, True, True, False])
reads("narrow", "x.narrow(0, t, 1) * 2", 1, 3)
reads("range", "x * sum(range(t))", 3, 5)
reads("int", "x * int(t)", 3, 5)
reads("float", "x * float(t)", 3.0, 5.0)
reads("bool", "x * (2 if t else 3)", True, False)
reads("item", "x * t.item()", 3.0, 5.0)
reads("tolist", "x * t.tolist()[0]", [3.0], [5.0])
reads("round", "x * round(float(t))", 3.2, 5.4)
reads("index", "x * [1, 2, 3][t]", 0, 2)
reads("math", "x * math.floor(t)", 3.5, 5.5)
reads("comparison", "x * (2 if t > 4 else 3)", 3.0, 5.0)
reads("maximum", "x * max(t, torch.tensor(4.0))", 3.0, 5.0)
reads("equal", "x * (2 if torch.equal(t, torch.tensor([3.0])) else 3)", [3.0], [5.0])
reads("allclose", "x * (2 if torch.allclose(t, torch.tensor([3.0])) else 3)", [3.0], [5.0])
reads("is_nonzero", "x * (2 if torch.is_nonzero(t) else 3)", 3.0, 0.0)
reads("all", "x * (2 if t.all() else 3)", [True, True], [True, False])
reads("formatted", "x * len(f'{t}')", 3, 50000)
reads("text", "x * len(str(t))", [3], [50000])
reads("repeat_interleave", "torch.repeat_interleave(x, t)", [1, 1, 1, 1], [2, 0, 1, 3])
reads("one_hot", "F.one_hot(t) * 2", [0, 1], [0, 3])
reads("bincount", "torch.bincount(t) * 2", [0, 1], [0, 3])
reads("nonzero", "torch.nonzero(t) * 2", [0, 1], [2, 3])
reads("unique", "torch.unique(t) * 2", [1, 1], [2, 3])
reads("masked_select", "torch.masked_select(x, t) * 2", [True, False, True, False], [True, True, True, False])
reads("pad", "F.pad(x, (t, 0))", 1, 3)
reads("repeat", "x.repeat(t)", 1, 3)
reads("reshape", "torch.ones(8).reshape(t, -1) * 2", 2, 4)
reads("clamp", "x.clamp(min=t) * 2", 1.0, 3.0)
reads("add_alpha", "torch.add(x, x, alpha=t)", 1.0, 3.0)
reads("where_scalar", "torch.where(x > 2, t, 0.0)", 1.0, 3.0)
reads("pow", "x ** t", 1.0, 3.0)
reads("cumsum_dim", "x.view(2, 2).cumsum(t)", 0, 1)
reads("topk", "torch.topk(x, t)", 1, 3)
reads("split", "[p * 2 for p in x.split(int(t))]", 1, 2)
reads("chunk", "[p * 2 for p in x.chunk(t)]", 1, 2)
reads("numpy", "x * float(t.numpy()[0])", [3.0], [5.0])
reads("data", "x * t.data", 3.0, 5.0)
reads("detached", "x + torch.tensor([t.detach(), 2.0, 3.0, 4.0])", 1.0, 100.0)
reads("storage", "x * t.untyped_storage()[0]", [1.1], [1.3])
reads("deep_copy", "x * copy.deepcopy(t)", 3.0, 5.0)
reads("pickled", "x * pickle.loads(pickle.dumps(t))", 3.0, 5.0)
reads("iterated", "x * sum(float(v) for v in t)", [1.0, 2.0], [3.0, 4.0])
reads("unpacked", "x * torch.tensor([*t, 1.0, 1.0])", [1.0, 2.0], [3.0, 4.0])
reads("interpolate", "F.interpolate(x.view(1, 1, 4), scale_factor=float(t))", 2.0, 3.0)

CTC = "scores = torch.arange(12.0).reshape(4, 1, 3).sin().log_softmax(-1)\ntargets = torch.tensor([[1, 2]])\n"
reads(
    "ctc_target_lengths", "F.ctc_loss(scores, targets, torch.tensor([4]), t, reduction='none') + x", [1], [2], CTC
)
reads("ctc_input_lengths", "F.ctc_loss(scores, targets, t, torch.tensor([1]), reduction='sum') + x", [4], [3], CTC)
PACKED = """
net = torch.nn.GRU(1, 2).requires_grad_(False)
for k, p in enumerate(net.parameters()): p.copy_(torch.arange(float(p.numel())).reshape(p.shape).sin() + k)
"""
reads(
    "packed_lengths", "torch.nn.utils.rnn.pack_padded_sequence(x.view(2, 2, 1), t).data * 2", [2, 1], [2, 2], PACKED
)
reads(
    "packed_network",
    "net(torch.nn.utils.rnn.pack_padded_sequence(x.view(2, 2, 1), t))[1] * 2",
    [2, 1],
    [2, 2],
    PACKED,
)
