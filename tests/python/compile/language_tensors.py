"""Rows of test_language.py: operators, methods and attributes of tensors, and what goes with them."""

from language import expressions, statements

HEAD = """
import math
T = torch.Tensor
p = torch.nn.Parameter(torch.ones(3), requires_grad=False)
d = {'w': p}
F = torch.nn.functional.one_hot
"""

expressions(
    "operators in Python",
    HEAD,
    *("x ** 2", "2 ** x", "x ** 0.5", "x ** x", "pow(x, 2)", "2.0 - x", "1 / (x + 1)", "7 // (x + 1)", "x // 2"),
    *("5 % (x + 1)", "x.__pow__(2)", "x.unflatten(1, (3, 1))", "x.split([1, 1])", "x.norm(2, -1)", "-x", "abs(x)"),
    *("torch.split(x, 1, dim=1)", "torch.norm(x, dim=1)", "torch.einsum('ij,kj', x, x)", "len(x)", "x.__len__()"),
)
expressions(
    "iteration over a tensor",
    HEAD,
    *(
        "list(x)[0]",
        "tuple(x)",
        "(lambda a, b: a + b)(*x)",
        "[a + b for a, b in zip(x, x)]",
        "list(reversed(x))[0]",
    ),
    *("torch.stack(list(x))", "torch.vstack(tuple(x))", "[r.sum() for r in x]", "sum(x)", "[*x, 1]"),
    *("list(map(torch.sum, x))", "[r * i for i, r in enumerate(x)]", "list(zip(x, 'ab'))[1][0]"),
)
statements(
    "unpacking a tensor",
    HEAD,
    "",
    "3",
    *(
        "a, b = x; y = y + a - b",
        "a, *b = x; y = y + b[0]",
        "(a, b), c = (x, 1); y = y * a",
        "for t in x: y = y + t",
    ),
    *("a, b = x.split(1); y = y + b", "q, (k, v) = x, x.chunk(2); y = y + k", "y **= 2", "y //= 2", "y %= 3"),
)
expressions(
    "methods of tensors called through the class",
    HEAD,
    *("T.add(x, 1)", "T.__add__(x, 1)", "T.size(x)", "T.pow(x, 2)", "T.sum(x, dim=1)", "T.__pow__(x, 2)"),
    *(
        "T.__getitem__(x, 0)",
        "x.__getitem__(0)",
        "T.__len__(x)",
        "T.__rsub__(x, 2)",
        "T.relu(x)",
        "T.view(x, 3, 2)",
    ),
)
statements(
    "slots of tensors", HEAD, "", "3", "y.__setitem__(0, 5.0)", "T.__setitem__(y, (0, 1), x[0, 0])", "y.__iadd__(x)"
)
expressions(
    "devices and dtypes",
    HEAD,
    *("torch.device('cpu')", "torch.device('cpu', 0).index", "x.to(torch.device('cpu')) + 1"),
    *("torch.device(x.device) == x.device", "x.device == torch.device('cpu')", "repr(x.dtype)", "str(x.dtype)"),
    *("f'{x.dtype}'", "'%s' % (x.dtype,)", "{torch.float32: 1}[x.dtype]", "x.dtype in {torch.float32, torch.half}"),
    *("torch.get_default_dtype()", "torch.finfo(torch.get_default_dtype()).eps", "torch.finfo(x.dtype).max"),
    *("torch.as_tensor(2.0) + x", "torch.as_tensor(x) + 1", "torch.as_tensor([1.0, 2.0, 3.0]) + x"),
    *("torch.asarray(x) + 1", "torch.as_tensor(3, dtype=x.dtype, device=x.device) + x", "x.device.type"),
)
expressions(
    "classes of tensors",
    HEAD,
    *("x.__class__", "x.__class__.__name__", "type(x) is x.__class__", "isinstance(x, torch.FloatTensor)"),
    *("isinstance(x + 1, torch.FloatTensor)", "isinstance(x + 1, torch.DoubleTensor)"),
    *("isinstance(x.half(), torch.HalfTensor)", "isinstance(x > 1, (int, torch.BoolTensor))"),
    *(
        "isinstance(p, torch.FloatTensor)",
        "isinstance(x.long() + 1, torch.LongTensor)",
        "isinstance(3, torch.IntTensor)",
    ),
)
expressions(
    "tensors as keys",
    HEAD,
    *("p in {p: 1}", "p in {p}", "len({p, p})", "x in {x: 1}", "{x: 3}[x]", "{x: 3}.get(p)", "p in {x, 3}"),
)
statements(
    "sets of tensors",
    HEAD,
    "s = set()",
    "len(s), p in s",
    *("s.add(p)", "s.add(p); s.add(p)", "s.add(x); s.discard(p)", "s.add(y)", "s.update((1, 2))"),
)
expressions(
    "sizes",
    HEAD,
    *("x.shape == (2, 3)", "x.shape.numel()", "x.shape[:1] + (5,)", "x.size() == x.shape", "2 in x.shape"),
    *("x.shape.index(3)", "torch.Size((1, 2)) + x.shape", "x.shape < (3,)", "f'{x.shape}'", "'%s %s' % x.shape"),
    *("isinstance(x.shape, tuple)", "math.prod(x.shape)", "x.shape * 2", "sorted(x.shape)", "x.shape is not None"),
)
expressions(
    "what a tensor says of itself",
    HEAD,
    *("x.data + 1", "p.data * 2", "(x + 1).data", "x.detach().data", "x.requires_grad_(False) + 1"),
    *("(x + 1).requires_grad_(False)", "(x * 2).detach_()", "x.cpu() + 1", "x.to('cpu') + 1"),
    *("x.type(torch.FloatTensor) + 1", "x.type(torch.DoubleTensor) + 1", "x.type('torch.DoubleTensor')"),
    *("x.type()", "torch.iinfo(torch.int32).max", "torch.finfo(x.dtype).eps", "torch.is_grad_enabled()"),
)
expressions(
    "shapes from shapes",
    HEAD,
    *("torch.broadcast_tensors(x, x[0])[1] + 1", "torch.meshgrid(x[0], x[1], indexing='ij')[0] + 1"),
    *(
        "F(torch.tensor([0, 2, 1]), 3) + 1",
        "F(x.long() % 2, 5)",
        "F(x.long(), num_classes=6).float()",
    ),
)
expressions(
    "shapes by what no input decides",
    HEAD + "mask = [True, False]\n",
    *(
        "x[torch.tensor(mask)] + 1",
        "x.masked_select(torch.ones(2, 3, dtype=torch.bool))",
        "torch.tensor(3.0).item()",
    ),
    "torch.arange(3).max().item()",
)
