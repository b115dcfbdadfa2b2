"""Rows of test_language.py: older sets and deques, types with parameters, patterns of text, counters."""

from language import expressions, statements

expressions(
    "older sets",
    "numbers, texts, kinds = {3, 1, 2}, frozenset(['a', 'bc']), {torch.float32, torch.float64, int}",
    *("[k for k in numbers]", "list(texts)", "[len(k) for k in texts]", "sorted(numbers)", "max(numbers)"),
    *("[k for k in kinds]", "tuple(kinds)", "sum(numbers)", "[k for k in numbers if k in texts]", "{*numbers}"),
    *("'-'.join(texts)", "dict.fromkeys(texts)", "[a + b for a in numbers for b in numbers]", "x.dtype in kinds"),
)
expressions(
    "older deque",
    "import collections\nQ = collections.deque([1, 2, 3])\nT = collections.deque([torch.ones(2, 3)], maxlen=2)",
    *("Q[0]", "Q[-1]", "len(Q)", "[n for n in Q]", "list(Q)", "2 in Q", "bool(Q)", "sum(Q)", "Q.count(2)"),
    *(
        "Q.index(3)",
        "sorted(Q)",
        "[a + i for i, a in enumerate(Q)]",
        "[*Q, *Q]",
        "x + T[0]",
        "T.maxlen",
        "tuple(Q)",
    ),
    *(
        "torch.stack(list(T))",
        "torch.stack(tuple(T)).sum(0)",
        "max(Q)",
        "[a * b for a, b in zip(Q, Q)]",
        "Q.copy()",
    ),
)
statements(
    "changes of an older deque",
    "import collections\nQ = collections.deque([1, 2, 3])\nL = collections.deque([4, 5], maxlen=2)",
    "Q.clear(); Q.append(1); Q.append(2); L.clear(); L.extend([4, 5, 7])",
    "len(Q), list(Q), list(L)",
    *("Q.append(3)", "Q.appendleft(3)", "Q.pop()", "Q.popleft()", "Q.extend([4, 5])", "Q.extendleft((4, 5))"),
    *(
        "Q.rotate(1)",
        "Q.rotate()",
        "Q.clear()",
        "Q.reverse()",
        "Q.insert(1, 9)",
        "Q.remove(1)",
        "L.extend([1, 2, 3])",
    ),
    *("L.append(x.shape[0]); Q.append(L.popleft())", "Q.append([1]); Q[-1].append(2)", "Q.append(len(Q))"),
    *("grown = [4]; Q.extend(grown); grown.append(5)", "y = y * Q.pop()", "Q.append(y); y = y + Q.pop()"),
)
expressions(
    "types with parameters",
    "import collections.abc, typing\nfrom typing import Any, Callable, Dict, List, Optional, Tuple, Union\n"
    "T = typing.TypeVar('T')\nclass Base(typing.Generic[T]): pass\nclass Plain: pass",
    *("List[int]", "Optional[torch.Tensor]", "Dict[str, List[int]]", "Callable[[int], str]", "Tuple[int, ...]"),
    *("Union[int, str, None]", "collections.abc.Callable[[Any], bool]", "collections.abc.Mapping[str, int]"),
    *("List['Plain']", "Base[int]", "List[T]", "Optional[Plain]", "typing.Literal['a', 1]"),
    "(lambda: [n for n in range(2)])()",
)
statements(
    "inner functions with annotations",
    "from typing import Callable, List, Optional",
    "",
    "3",
    "def g(t: Optional[torch.Tensor], n: List[int] = (1,)) -> Callable[[int], int]: return t\ny = g(y)",
    "def g(t: 'torch.Tensor') -> dict[str, int]: return t * 2\ny = g(y)",
    "def g(t: torch.Tensor | None, m: None | torch.nn.Module = None) -> torch.Size | None: return t\ny = g(y)",
)
expressions(
    "patterns",
    "import re\nP = re.compile('(a+)(b)?')\n"
    "re.sub('a', 'b', 'a'), re.match('x', 'y'), re.split(',', ''), re.findall('a', '')",
    *(
        "P.match('aab').group(1)",
        "bool(P.match('x'))",
        "P.sub('-', 'aabca')",
        "P.findall('abaa')",
        "P.split('xay')",
    ),
    *("P.match('aab').groups()", "P.search('xaa').span()", "P.pattern", "P.fullmatch('aab') is not None"),
    *(
        "re.sub('a', 'b', 'banana')",
        "re.match('x', 'y')",
        "re.split(',', 'a,b')",
        "P.sub(lambda m: m.group(0) * 2, 'ca')",
    ),
    *("P.match('ab').end()", "P.groups", "P.match('ab').string"),
)
expressions(
    "copies of sizes and ordered dicts",
    "import collections, copy\nO = collections.OrderedDict(a=1, b=[2])",
    *("copy.copy(x.shape)", "copy.deepcopy(x.shape)", "copy.copy(O)", "copy.deepcopy(O)"),
    *("copy.deepcopy({'s': x.shape, 'o': O})", "copy.deepcopy(O)['b'] is O['b']", "copy.copy(O)['b'] is O['b']"),
    *("copy.deepcopy('text')", "copy.deepcopy(['text', 'text', 1000])", "copy.deepcopy({'k': 'v'})"),
)
expressions(
    "counters of data",
    "import collections\nW = ['a', 'b', 'a']",
    *("collections.Counter(W)['a']", "collections.Counter('hello')", "collections.Counter([1, 2, 1]).total()"),
    *("collections.Counter(W) + collections.Counter(a=1)", "sorted(collections.Counter(W).items())"),
)
expressions(
    "functions as keys",
    "def helper(): pass\nH = {len: 1, torch.gather: 2, torch.split: 3, helper: 4}\n"
    "M = {sorted: 1, 7: 2, helper: 3}",
    *("H[len]", "H[torch.gather]", "H.get(torch.split)", "torch.stack in H", "helper in H", "H[helper]", "M[7]"),
    *("M[sorted]", "M.get(helper)", "8 in M", "M.get(max, 5)", "{**M}[7]"),
    "{len: x, helper: 2}[len] + 1",
    *("{dict.fromkeys: 2}[dict.fromkeys]", "{torch.Tensor.add: 2}[torch.Tensor.add]"),
)
statements(
    "functions as keys",
    "def helper(): pass\nH = {}",
    "H.clear(); H[len] = 1; H[helper] = 2",
    "list(H.items())",
    *("H[len] = 3", "H[max] = 4", "del H[len]", "H.pop(helper)", "H.setdefault(min, 5)", "y = y * H[len]"),
)
statements(
    "attributes of a thread's own",
    "import threading\nclass State(threading.local):\n    kind = 'a class'\n"
    "    def __init__(self): self.n, self.items = 1, []\n"
    "    @property\n    def twice(self): return self.n * 2\nS, P = State(), threading.local()",
    "S.n = 1; S.items.clear(); P.__dict__.clear(); P.a = 2",
    "S.n, list(S.items), sorted(vars(P)), sorted(S.__dict__)",
    *("S.n = 5", "S.n += 1", "P.b = x.shape[0]", "del P.a", "S.items.append(S.n)", "setattr(P, 'c', 3)"),
    *("S.__dict__['n'] = 4", "y = y * S.n + P.a", "y = y + len(S.kind)", "y = y * getattr(P, 'z', 3)"),
    *("y = y * S.twice", "P.a = y; y = P.a + 1; P.a = 1", "S.n, P.a = P.a, S.n"),
)
expressions(
    "special methods of views",
    "D = {'a': 1, 'b': torch.ones(2)}",
    *("D.keys().__contains__('a')", "D.keys().__len__()", "list(D.keys().__iter__())", "D.items().__len__()"),
    *("{'a': x}.keys().__contains__('b')", "[k for k, _ in D.items().__iter__()]", "D.values().__len__()"),
)
expressions(
    "ends of slices",
    "N = slice(None, None, 2)",
    *("slice(1, 2).indices(5)", "slice(None, None, -1).indices(x.shape[0])", "slice(x.shape[0], None).indices(9)"),
    *("N.indices(7)", "[x[i] for i in range(*N.indices(x.shape[0]))]", "len(range(*slice(-1, None).indices(4)))"),
)
