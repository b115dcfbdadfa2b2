"""Kernels of one parallel region: results, more threads than processors, and an index that is out of range."""

import threading

import pytest
import torch

import braze


@pytest.fixture(params=[2, 5])
def threads(request):
    """Threads of PyTorch, beyond the machine's processors too."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def stages(x, y):
    """Four stages of sizes that are split over threads, a matrix product between them."""
    a = torch.exp(x).sum(0)
    b = torch.sin(y).amax(1)
    c = (x - a).flip(0)
    d = torch.roll(y, 3, 1) * b[:, None]
    e = (c @ d.T).softmax(-1)
    return a, b, c.flip(1), d.cumsum(0), e.flip(0), torch.tanh(x).mean(), torch.tanh(y).prod()


def test_stages_agree_with_eager(threads):
    torch.manual_seed(0)
    x, y = torch.randn(300, 1024), torch.randn(300, 1024)
    program = braze.trace(stages, (x, y))
    for _ in range(3):
        for got, want in zip(program(x, y), stages(x, y), strict=True):
            torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5)


def test_results_do_not_depend_on_the_number_of_threads():
    torch.manual_seed(1)
    x, y = torch.randn(300, 1024), torch.randn(300, 1024)

    def f(x, y):
        a = torch.exp(x).sum()
        return a, (x * a).flip(0).sum(0), (y / a).flip(1).std(1)

    program = braze.trace(f, (x, y))
    before = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            results.append(program(x, y))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_many_small_kernels_share_a_region(threads):
    """Updates of parameters too small to be split one by one."""
    torch.manual_seed(2)
    sizes = [1 + 997 * k % 12000 for k in range(40)]
    parameters = [torch.randn(n) for n in sizes]
    gradients = [torch.randn(n) for n in sizes]

    def step(parameters, gradients):
        for p, g in zip(parameters, gradients, strict=True):
            p.add_(torch.sqrt(g * g + 1), alpha=-0.1)
        return len(parameters)

    mine, eager = [p.clone() for p in parameters], [p.clone() for p in parameters]
    program = braze.trace(step, ([p.clone() for p in parameters], gradients))
    for _ in range(2):
        program(mine, gradients)
        step(eager, gradients)
    for got, want in zip(mine, eager, strict=True):
        torch.testing.assert_close(got, want)


def test_programs_of_several_python_threads_at_once(threads):
    torch.manual_seed(3)
    x, y = torch.randn(200, 512), torch.randn(200, 512)
    program = braze.trace(stages, (x, y))
    want = program(x, y)
    failures = []

    def run():
        for _ in range(3):
            got = program(x, y)
            if not all(torch.equal(a, b) for a, b in zip(got[:4], want[:4], strict=True)):
                failures.append(got)

    callers = [threading.Thread(target=run) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert not failures and not any(caller.is_alive() for caller in callers)


def test_an_index_out_of_range_is_raised_before_an_input_is_written(threads):
    table, where, total = torch.randn(100, 64), torch.tensor([1, 99]), torch.zeros(60000)

    def f(table, where, total):
        rows = torch.nn.functional.embedding(where, table)
        total.add_(rows.sum())
        return rows

    program = braze.trace(f, (table, where, total.clone()))
    with pytest.raises(IndexError):
        program(table, torch.tensor([1, 100]), total)
    assert not total.any()
