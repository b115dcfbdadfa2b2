"""What Python makes of sizes: one program for all of them where that is an expression or only moves them, and never
another size's result.

A line is an expression of a tensor x; n is its first size.
"""

import collections
import copy
import dataclasses
import functools
import itertools
import math
import operator
import typing

import pytest
import torch
from any_size import same

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("no_grad"),
]

Pair = collections.namedtuple("Pair", "a b")


class Typed(typing.NamedTuple):
    a: int
    b: int = 3


@dataclasses.dataclass
class Data:
    a: int
    b: int = 2


#: One program for all sizes above 1.
GENERAL = """
'a'*(n>100)
(1,*x.shape)
(lambda **k: x*k["a"])(a=n)
(lambda *a: x*a[0]+a[-1])(*x.shape)
(lambda a,b: x*a+b)(**dict(a=n,b=2))
(lambda f: f(x))(len)
(n).__class__
(n>1)*n
(n>100)+1
(x,)[0].shape
-n
-n%5
-n//5
100%n
100//n
1<<n
2**n
2.0**n
3 in x.shape
7/n
Data(n).__dict__
Data(n).a
Data(n)==Data(3)
Pair(1, 2)._replace(b=n*2)
Pair(n, 2)
Pair(n, 2).a
True+n
Typed(n).a
[(i,s) for i,s in enumerate(x.shape)]
[(s,) for s in x.shape]
[*x.shape,5]
[[s] for s in x.shape]
[a*b for a,b in zip(x.shape, x.shape[1:])]
[n,1].copy()
[n,1].pop(0)
[n,1][-1]
[n,1][:1]
[n]*2
[n]+[1]
[n]==[n]
[s for s in x.shape if s>1]
[s for s in x.shape]
[s*2 for s in x.shape]
[t.shape for t in [x]]
[x.size(0) for _ in range(2)]
[x]*2==[x,x] and 1
[x].count(x)
[x].index(x)
[x].pop().shape
[x][0].shape
abs(n-100)
all([n>1, n<100])
all(s>1 for s in x.shape)
all(t.shape[0]>1 for t in [x])
any([n>100])
any(s>100 for s in x.shape)
bool(n)
callable(n)
collections.OrderedDict(a=n)
collections.deque([x])[0].shape
copy.copy([n])
dataclasses.replace(Data(n),b=n//2)
dict(a=n)
float(n)
functools.partial(torch.mul, x)(2)
functools.reduce(operator.mul, x.shape)
functools.reduce(operator.mul, x.shape, 1)
getattr(x,"T").shape
getattr(x,"data").shape
getattr(x,"mT").shape
getattr(x,"ndim")
getattr(x,"shape")[0]
getattr(x,"shape",None)[0]
getattr(x,"size")()[0]
getattr(x,"size")(0)
hasattr(x,"shape") and x.shape
int(n)
int(n/3)
int(n>100)
isinstance(n,(float,str))
isinstance(n,int)
isinstance(x,torch.Tensor) and x.size(0)
issubclass(type(n), int)
len
len(torch.unbind(x,1))
list(map(lambda t:t.shape[0],[x]))
list(reversed(x.shape))
list(s for s in x.shape)
list(x.shape)
list(x.shape)==[3,6]
list(zip(x.shape, x.stride()))
list({"a":n}.values())
math.comb(n,2)
math.copysign(n,-1)
math.floor(n/3)
math.fmod(n,5)
math.gcd(n,12)
math.isclose(n, 8.5)
math.isfinite(n/2)
math.isnan(n)
math.log(n,2)
math.pow(n,2)
math.prod((n,2), start=3)
math.prod([n,2])
math.prod(x.shape)
math.prod(x.shape[1:])
math.sqrt(n)
math.trunc(n/3)
max([n,4])
max(n, 3)
max(n//2, n-1)
max(x.shape)
min(n, 100)
min(n, n*2)
min(x.shape)
n and 3
n if isinstance(n,int) and n>1 else 0
n in (3,4)
n in [3,4]
n in {3,4}
n in {3:1}
n is None
n not in (3,4)
n or 3
n!=None
n%-5
n%2.5
n&5
n**0.5
n*True
n+0.5
n.bit_count()
n.bit_length()
n.conjugate()
n.numerator
n.real
n//-5
n//2.5
n<<2
n==3 or n
n==8.5
n==None
n==n
n>math.inf
next((s for s in x.shape if s>1), None)
next(t for t in [x]).shape
not n
operator.add(n,1)
operator.add(x,x).shape
operator.attrgetter("shape")(x)
operator.attrgetter('shape')(x)[0]
operator.floordiv(n,3)
operator.getitem(x,0).shape
operator.getitem(x.shape,0)
operator.index(n)
operator.itemgetter(0)(x).shape
operator.itemgetter(0)(x.shape)
operator.itemgetter(0,1)(x.shape)
operator.lt(n,100)
operator.methodcaller("numel")(x)
operator.methodcaller("size",0)(x)
operator.mod(n,3)
operator.mul(n,n)
operator.neg(n)
operator.not_(n)
operator.pow(n,2)
operator.truediv(n,3)
operator.truth(n)
pow(n,2,7)
pow(n,3)
print if n>100 else 1
round(n)
round(n,-1)
round(n/3,1)
slice(0,n)
sum([n, 3])
sum([n>1, n>2])
sum([t.shape[0] for t in (x,x[1:])])
sum(x.shape)
sum(x.shape, 5)
torch.Size((n,3))
torch.Size([1])+x.shape
torch.Size([s for s in x.shape])
torch.Size(list(x.shape))
torch.Size(x.shape)
torch.Size.numel(x.shape)
torch.Tensor.__len__(x)
torch.Tensor.dim(x)
torch.Tensor.element_size(x)*torch.Tensor.nelement(x)
torch.Tensor.numel(x)
torch.Tensor.size(x)
torch.Tensor.size(x,0)
torch.Tensor.size(x,dim=0)
torch.Tensor.stride(x)
torch.arange(10)[range(3)] * n
torch.atleast_3d(x).shape
torch.broadcast_tensors(x,x[:1])[1].shape
torch.empty_like(x).shape
torch.is_tensor(x) and x.shape
torch.numel(x)
torch.result_type(x,x)
tuple(reversed(x.shape))
tuple(s for s in x.shape)
tuple(x.shape)
tuple(x.shape)==(3,6)
type(n)
type(n) is int
vars(Data(n))["a"]
x is x
x.T.shape
x.T.size(dim=1)
x.__class__.__name__
x.__len__()
x.clone().shape
x.device
x.element_size()
x.element_size()*x.numel()
x.expand([2]+[-1]*x.dim())
x.expand_as(x).shape
x.grad
x.is_contiguous()
x.itemsize
x.layout
x.nelement()
x.new_zeros([max(s,4) for s in x.shape])
x.new_zeros(sum([x.size(i) for i in range(x.dim())]))
x.numel()
x.real.shape
x.reshape([s for s in x.shape])
x.shape!=(3,6)
x.shape*2
x.shape+(3,)
x.shape.__class__
x.shape.numel()
x.shape==(3,6)
x.shape==torch.Size([3,6])
x.shape==x.clone().shape
x.shape==x.shape
x.shape[-1]
x.shape[1:]==(6,)
x.shape[:-1]+(2,)
x.shape[::-1]
x.size().numel()
x.size()==x.t().shape
x.size(dim=0)
x.sort(0).indices.shape
x.stride()
x.t().is_contiguous()
x.t().stride()
x.topk(2,0).values.shape
x.unfold(0,2,1).size(0)
x.view(*[s for s in x.shape])
x.view(functools.reduce(operator.mul, x.shape[:-1]), -1)
x.view(tuple(s for s in x.shape))
x.view(x.size(0), -1).size(1)
x.view_as(x).shape
x[(slice(None),slice(0,3))]
x[:n//2].shape
x[slice(0,n-1)]
x[tuple([slice(0,s//2) for s in x.shape])]
{"a":n}
{"a":n}.get("a")
{"a":n}.pop("a")
{"a":n}["a"]
{"a":x}["a"].shape
{"a":{"b":n}}["a"]["b"]
{**{"b":n}, "c":1}
{k:v for k,v in zip("ab",x.shape)}
~n
"""
#: A program for each size or answer, or none.
EACH = """
copy.copy(x).shape
copy.deepcopy(x).shape
list(map(operator.attrgetter("shape"),[x]))
operator.attrgetter("shape","T.shape")(x)
operator.truth(x[0,0]>100)
slice(n).indices(100)
torch.Tensor.shape.__get__(x)
x in [x]
x.size().__getitem__(0)
x.storage_offset()
x.untyped_storage().nbytes()
"%d" % n
(lambda a,*r: len(r))(*x)
(lambda y,k=n: y*k)(x)
(n,1)<(100,2)
(n/2).is_integer()
Pair(n,2)._asdict()
Typed(1,n)._replace(a=4)
[*map(lambda s: s//2, x.shape)]
[n,3].index(3)
[r.shape for r in x][0]
all([n, n+8])
any(x.shape)
bool(x.shape)
collections.Counter(a=n)["a"]
collections.deque([n])[0]
complex(n)
copy.deepcopy(n)
copy.deepcopy({"a":n})
dataclasses.asdict(Data(n))
dataclasses.astuple(Data(n))
dict([("a",n)])
dict(collections.defaultdict(int, a=n))
dict(enumerate(x))[0].shape
dict(enumerate(x.shape))
dict(zip("ab",x.shape))
divmod(-n, 5)
divmod(100, n)
divmod(n, 2.5)
divmod(n, 5)
f"{n}"
f"{x.shape}"
functools.partial(getattr,x)("shape")
functools.partial(lambda a, b, c: a*b+c, n, c=n//2)(x)
functools.partial(lambda a, b: b*a, n)(x)
functools.partial(lambda a, k: a*k, k=n)(x)
functools.partial(len,x)()
functools.partial(max, n)(2)
functools.partial(torch.numel,x)()
functools.reduce(lambda a,b:a+b, x.shape, 1)
functools.reduce(lambda a,b:a+b,x).shape
functools.reduce(torch.add,x).shape
getattr(x,"nbytes")
hash(n)
int.__add__(n,1)
iter(x.shape).__next__()
len([*x])
len(list(enumerate(x)))
len(list(iter(x)))
len(list(itertools.chain(x,x)))
len(list(itertools.islice(x,3)))
len(list(map(lambda r:r*2,x)))
len(list(reversed(x)))
len(list(x))
len(list(zip(x,x)))
len(range(n))
len(tuple(x))
len(x.split(1))
len(x.unbind())
list(collections.deque([n, 2]))
list(filter(None, x.shape))
list(filter(lambda s: s>1, x.shape))
list(itertools.accumulate(x.shape))
list(itertools.chain(x.shape,[1]))
list(itertools.combinations(x.shape,2))
list(itertools.islice(x.shape, 1))
list(itertools.pairwise(x.shape))
list(itertools.product(x.shape,[1,2]))
list(itertools.repeat(n,2))
list(itertools.starmap(lambda a,b:a*b, [(n,2)]))
list(itertools.takewhile(lambda s:s>7, x.shape))
list(itertools.zip_longest(x.shape,[1]))
list(map(lambda s: s*2, x.shape))
list(map(len,[x,x]))
list(map(operator.add, x.shape, x.shape))
list(map(torch.Tensor.dim,[x]))
list(map(torch.Tensor.size,[x]))
list(map(torch.numel,[x]))
list({"a":n}.items())
list.__len__(list(x.shape))
math.fsum([n,0.5])
max([x,x[1:]],key=lambda t:t.shape[0]).shape
max([x,x[1:]],key=len).shape
max(s for s in x.shape)
max(x.shape, key=lambda s:s)
min((len(t) for t in [x,x[1:]]))
n in range(3)
n**30
n**n%1000
n*10**18*1000
n*1j
n-2**63
n.__add__(1)
n.__index__()
n.__mul__(2)
n.as_integer_ratio()
n=="8"
n>8.5 or 1
next(iter(x)).shape
next(iter(x.shape))
operator.iadd(n,1)
range(0,n,2)
range(n)
range(n)[2]
repr(x.size())
sorted([n, 1])
sorted([x,x[1:]],key=lambda t:t.numel())[0].shape
sorted([x,x[1:]],key=len)[0].shape
sorted(x.shape)
str(n)
str(x.shape)
sum(1 for r in x)
sum(map(torch.numel,(x,x)))
sum(s*2 for s in x.shape)
sum(t.numel() for t in (x,x))
sum(x).shape
torch.Size(s*2 for s in x.shape)
torch.broadcast_shapes(x.shape,(1,6))
torch.is_same_size(x,x)
torch.stack([r*2 for r in x]).shape
torch.stack(list(x)).shape
torch.stack(tuple(reversed(x))).shape
torch.zeros(*map(int, x.shape))
tuple(map(int, x.shape))
tuple(sorted((n, 1)))
tuple.__getitem__(x.shape,0)
tuple.__len__(x.shape)
x.is_same_size(x)
x.nbytes
x.new_tensor([1.]).shape
x.shape.__iter__().__next__()
x.shape.__len__()
x.shape.count(3)
x.shape.index(6)
x.unbind()[-1].shape
{"a":n}|{"b":2}
{n:1}
{n}
{t.shape for t in [x]}
"""
NAMES = {
    **{
        module.__name__: module for module in (collections, copy, dataclasses, functools, itertools, math, operator)
    },
    **{"torch": torch, "Pair": Pair, "Typed": Typed, "Data": Data},
}


def compiled_and_checked(expression, dynamic, sizes):
    function = eval(f"lambda x: (lambda n: (x + 1, {expression}))(x.shape[0])", dict(NAMES))
    compiled = braze.compile(function, dynamic=dynamic)
    for size in sizes:
        x = torch.randn(size, 6, generator=torch.Generator(torch.get_default_device()).manual_seed(size))
        try:
            wanted = function(x)
        except (
            ArithmeticError,
            AttributeError,
            ValueError,
            LookupError,
            RuntimeError,
            TypeError,
            StopIteration,
        ) as error:
            with pytest.raises(type(error)):
                compiled(x)
            continue
        same(compiled(x), wanted)
    return compiled.counts()


def lines(text):
    return text.strip().splitlines()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("expression", lines(GENERAL))
def test_one_program_for_all_sizes(expression, dynamic):
    counts = compiled_and_checked(expression, dynamic, (8, 12, 20, 7, 34, 10))
    assert counts["captured"] == (1 if dynamic else 2) and counts["native"] == 0


@pytest.mark.parametrize("expression", lines(GENERAL) + lines(EACH))
def test_no_size_gets_the_result_of_another(expression):
    compiled_and_checked(expression, None, (8, 12, 20, 1, 0, 7, 8, 2))
