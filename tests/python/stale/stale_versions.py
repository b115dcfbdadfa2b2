"""What autograd counts and knows of results: versions, views, their bases."""

from staleness import case, module, tensor

SOURCES = {
    "two_writes": "x.add_(1); x.mul_(2); r = x[1:]",
    "one_write": "x[0] = 5; r = x * 2",
    "no_write": "r = x[1:]",
    "write_through_view": "v = x[1:]; v.add_(1); v.mul_(1); r = v",
    "write_through_detached": "x.detach().add_(1); r = x + 0",
    "made_then_written": "r = x * 2; r.add_(1); r.mul_(2)",
    "made_and_viewed": "y = x * 2; y.add_(1); r = y[1:]",
    "view_of_view": "r = x[1:][1:].view(-1)",
    "view_of_made_view": "r = (x + 1).view(2, 2)[0]",
    "two_views": "y = x + 1; r = (y[0], y[1:], y)",
    "chunks": "r = (x + 1).chunk(2)",
    "unbound": "r = x.unbind()",
    "transposed_base": "y = x.view(2, 2) + 1; r = (y.t(), y)",
    "copy": "x.copy_(x * 2); r = x",
    "read_inside": "y = x + 1; y.add_(1); v = y[0]; r = (y, y._version, v._is_view(), v._base is y)",
    "read_of_input": "x.add_(1); r = (x._version, x[0]._base is x)",
    "fill": "x.fill_(2.0); x.zero_(); x.add_(1); r = x.view(2, 2)",
    "out": "torch.add(x, 1, out=x); r = x",
    "relu": "r = torch.nn.functional.relu(x - 2, inplace=True)",
    "foreach": "torch._foreach_add_([x], 1); r = x",
    "batch_norm": "m = x + 0; v = x + 1; torch.nn.functional.batch_norm(x.view(1, 4), m, v, eps=1); r = (m, v)",
    "no_grad": "with torch.no_grad(): r = x[1:]",
    "set_item_twice": "x[0] = 1; x[1:3] = 2; r = x[2:]",
    "complex_view": "r = torch.view_as_complex(x.view(2, 2))",
    "other_type": "r = x.view(torch.int32)",
    "detached": "r = x.detach()",
    "expanded": "r = x.expand(2, 4)",
    "real_part": "r = torch.complex(x, x).real",
}


for name, body in SOURCES.items():

    @case(name=name, evolves=True)
    def versions(body=body):
        lines = "".join(f"    {line.strip()}\n" for line in body.split("; "))
        m = module(f"def f(x):\n{lines}    return r")
        yield m.f, tensor()
        yield tensor() * 2
        x = tensor(6)[1:5]
        yield x
        yield x
