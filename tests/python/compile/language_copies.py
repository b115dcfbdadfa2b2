"""Rows of test_language.py: copies, decorators, contexts and modules of the standard library around tensors."""

from language import expressions, statements

HEAD = """
import contextlib, copy, dataclasses, functools, logging, math, torch.nn as nn
torch.manual_seed(0)
dd, lst, tup = {'a': 1, 'b': 2}, [3, 1, 2], (1, 2, 3)
@dataclasses.dataclass
class D:
  a: int = 1
  c: list = dataclasses.field(default_factory=list)
class C:
  def __init__(self, v=3): self.v = v
  def m(self, t): return t * self.v
dc, c = D(3), C()
logger = logging.getLogger('nobody.listens')
def g(a, b=2): return a + b
lin = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval().requires_grad_(False)
mha = nn.MultiheadAttention(4, 2, batch_first=True).eval().requires_grad_(False)
enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1).eval().requires_grad_(False)
x4 = torch.rand(2, 3, 4)
"""

expressions(
    "copies",
    HEAD,
    *("copy.copy(lst)", "copy.deepcopy(lst)", "copy.copy(c).v"),
    *("copy.deepcopy((1, [2]))", "copy.copy(dc)"),
    *("copy.deepcopy(None)", "dataclasses.asdict(dc)", "dataclasses.astuple(dc)", "copy.deepcopy([lst, lst])[0]"),
    *("(lambda l: l[0] is l[1])(copy.deepcopy([lst, lst]))", "vars(c)['v']", "vars(dc)['a']", "globals()['tup']"),
)
expressions(
    "copies of what is keyed by text",
    HEAD,
    *("copy.deepcopy(dd)", "copy.deepcopy(c).m(x)", "copy.deepcopy(dc)", "copy.deepcopy({'a': [1, {'b': 2}]})"),
)
expressions(
    "text of parts",
    HEAD,
    *("','.join(str(i) for i in lst)", "','.join(map(str, lst))", "'x'.join(dd.keys())", "'a'.join([])"),
)
statements(
    "decorators and contexts",
    HEAD,
    "l = [1, 2]",
    "l",
    *(
        "@torch.no_grad()\ndef h(t): return t + 1\ny = h(y)",
        "@functools.wraps(g)\ndef h(t): return t + 1\ny = h(y)",
    ),
    *(
        "@contextlib.contextmanager\ndef h():\n    yield 5\nwith h() as k: l.append(k)",
        "@functools.wraps(g)\ndef h(t): return t + 1\nl.append(h.__name__)",
    ),
    *("logger.debug('a %s', 1)", "logging.getLogger('nobody.listens').debug('x')", "logger.log(5, 'z')"),
    *("logging.getLogger('of.this.row').debug('x')", "l.append(logger.isEnabledFor(logging.DEBUG))"),
)
statements("devices as contexts", HEAD, "", "3", "with torch.device('cpu'): y = y + torch.ones(3)")
expressions(
    "modules",
    HEAD,
    *("next(lin.parameters()).dtype", "x.to(next(lin.parameters()).dtype)", "next(iter(lin.parameters())).device"),
    *("[n for n, _ in lin.named_parameters()]", "len(list(lin.parameters()))", "len(list(lin.modules()))"),
    *(
        "[type(m).__name__ for m in lin.modules()]",
        "list(lin.state_dict())",
        "sum(p.numel() for p in lin.parameters())",
    ),
    *(
        "mha(x4, x4, x4)[0]",
        "mha(x4, x4, x4, need_weights=False)[0]",
        "enc(x4)",
        "[n for n, _ in lin.named_buffers()]",
    ),
    *("enc(x4, src_key_padding_mask=torch.zeros(2, 3, dtype=torch.bool))", "lin(x)", "lin[0](x)"),
)
expressions(
    "operators of torch.ops",
    HEAD,
    *(
        "torch.ops.aten.softmax.int(x, -1)",
        "torch.ops.aten._softmax(x, -1, False)",
        "torch.ops.aten.relu.default(x)",
    ),
    *(
        "torch.ops.aten._softmax.default(x, -1, False)",
        "torch.ops.aten.native_layer_norm(x, [3], None, None, 1e-5)[0]",
    ),
    *("torch.ops.aten.mish(x)", "torch.ops.aten.add.Tensor(x, x)", "x.is_leaf", "x.grad_fn", "(x + 1).is_leaf"),
)
expressions(
    "values that are read",
    HEAD,
    *("torch.nonzero(x > 1)", "x[x > 2]", "torch.where(x > 2)[0]", "torch.masked_select(x, x > 1)", "int(x.sum())"),
    breaks=1,
)
