"""When the system has too little of something, calls run eagerly, and afterwards all is as before."""

import pytest
from processes import fresh

LITTLE_MEMORY = """
import resource, sys, threading, torch, braze
torch.set_num_threads(1)
torch.set_grad_enabled(False)
x = torch.randn(8, 64)


def make(seed):
    def f(x):
        return [torch.softmax(x * (k + seed), -1).cumsum(0) for k in range(6)]

    return braze.compile(f, options={"compile_threads": 1}), f


def taken():
    return int(open("/proc/self/statm").read().split()[0]) * 4096


def same(got, want):
    return all(torch.allclose(a, b, atol=1e-6) for a, b in zip(got, want, strict=True))


soft, hard = resource.getrlimit(resource.RLIMIT_AS)
for k, room in enumerate(range(1 << 18, 90 << 20, 9 << 20)):
    compiled, f = make(k)
    want = f(x)
    resource.setrlimit(resource.RLIMIT_AS, (taken() + room, hard))
    try:
        got = compiled(x)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert same(got, want), room
    assert same(compiled(x), want), room
    assert same(compiled(x), want), room
    assert compiled.counts()["replayed"] > 0, (room, compiled.reasons())
done = []


def elsewhere():
    torch.set_grad_enabled(False)
    compiled, f = make(99)
    done.append(same(compiled(x), f(x)))


thread = threading.Thread(target=elsewhere, daemon=True)
thread.start()
thread.join(60)
print(done)
"""

NO_THREADS = """
import os, resource, torch, braze
torch.set_num_threads(1)
torch.set_grad_enabled(False)
if os.geteuid() == 0:
    os.setresgid(65533, 65533, 65533)
    os.setresuid(65533, 65533, 65533)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
x = torch.randn(8, 64)


def f(x):
    return [torch.softmax(x * k, -1).cumsum(0) for k in range(12)]


compiled = braze.compile(f)
for _ in range(3):
    for a, b in zip(compiled(x), f(x), strict=True):
        torch.testing.assert_close(a, b)
print(compiled.counts()["replayed"])
"""


def test_little_memory():
    assert fresh(LITTLE_MEMORY, BRAZE_CACHE="0", OMP_NUM_THREADS="1").strip() == "[True]"


def test_no_more_threads():
    assert fresh(NO_THREADS, BRAZE_CACHE="0", OMP_NUM_THREADS="1").strip() == "2"


@pytest.mark.parametrize("sizes", [(2**62,), (2**63 - 1,), (2**31, 2**31), (2**50, 0)])
def test_sizes_beyond_any_memory_are_left_to_eager(sizes):
    code = f"""
import torch, braze
torch.set_grad_enabled(False)
x, sizes = torch.ones(1), {sizes}
f = lambda x: (x.neg(), x.expand(sizes), x.expand(sizes)[:1][..., :1] * 2)
compiled = braze.compile(f)
for _ in range(3):
    got, want = compiled(x), f(x)
    assert [(a.shape, a.stride()) for a in got] == [(a.shape, a.stride()) for a in want]
    assert torch.equal(got[0], want[0])
print("same")
"""
    assert fresh(code).strip() == "same"


def test_finalizer_that_calls_while_the_interpreter_shuts_down():
    code = """
import sys, torch, braze
x, k = torch.ones(3), 2
def f(x):
    return x * k
compiled = braze.compile(f)
compiled(x)
class Late:
    def __del__(self, print=print, compiled=compiled, x=x):
        print(type(compiled(x)).__name__)
class Unguarded:
    def __del__(self, print=print, braze=braze, f=f, x=x):
        compiled(x)
sys.kept_until_the_end = (Late(), Unguarded())
print("end")
"""
    assert fresh(code).startswith("end")


FILES_TOO_LARGE = """
import os, resource, signal, torch, braze
torch.set_grad_enabled(False)
x = torch.randn(8, 8)
for action in (signal.SIG_IGN, signal.SIG_DFL):
    signal.signal(signal.SIGXFSZ, action)
    for limit in (0, 1, 47, 48, 100, 1000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        f = lambda x: torch.softmax(x * (limit + int(action)), -1).cumsum(0)
        compiled = braze.compile(f)
        for _ in range(2):
            assert torch.allclose(compiled(x), f(x), atol=1e-6)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert compiled.counts()["replayed"] > 0
print(signal.getsignal(signal.SIGXFSZ) == signal.SIG_DFL, not signal.sigpending())
"""


def test_files_beyond_the_limit(tmp_path):
    assert fresh(FILES_TOO_LARGE, BRAZE_CACHE_DIR=str(tmp_path)).strip() == "True True"
    assert not [name for name in tmp_path.iterdir() if ".braze." in name.name]
