"""Several programs from several threads at once, while others trace."""

import threading

import torch

import braze

THREADS = 8


def in_threads(body):
    """Runs body(number) on every thread; raises what any of them raised."""
    failures, start = [], threading.Barrier(THREADS)

    def run(number):
        try:
            start.wait()
            body(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


FUNCTIONS = [
    lambda x, w: x + 1,
    lambda x, w: (x @ w).softmax(-1),
    lambda x, w: ((x * 2).sum(-1, keepdim=True) + x).cumsum(-1),
    lambda x, w: torch.nn.functional.gelu(x @ w + x) @ w,
]


def test_programs_from_all_threads():
    shape = (64, 64)
    programs = [braze.trace(fn, (torch.randn(shape), torch.randn(shape))) for fn in FUNCTIONS]

    def body(number):
        generator = torch.Generator().manual_seed(number)
        for step in range(30):
            x, w = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
            which = (number + step) % len(FUNCTIONS)
            torch.testing.assert_close(programs[which](x, w), FUNCTIONS[which](x, w), rtol=1e-3, atol=1e-3)

    in_threads(body)


def test_tracing_on_all_threads():
    def body(number):
        x, w = torch.randn(number + 2, 16), torch.randn(16, 16)
        for fn in FUNCTIONS:
            torch.testing.assert_close(braze.trace(fn, (x, w))(x, w), fn(x, w), rtol=1e-4, atol=1e-4)

    in_threads(body)


def test_a_trace_records_its_own_thread_only():
    inside, done = threading.Event(), threading.Event()
    seen = []

    def slow(x):
        y = x + 1
        inside.set()
        assert done.wait(60)
        return y * 2

    def other():
        assert inside.wait(60)
        x = torch.ones(3)
        seen.append((x + 1).tolist())
        seen.append(repr(x))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    program = braze.trace(slow, (torch.ones(3),), check=False)
    thread.join()
    assert seen == [[2.0, 2.0, 2.0], "tensor([1., 1., 1.])"]
    assert torch.equal(program(torch.ones(3)), torch.full((3,), 4.0))
