"""mode="reduce-overhead": calls replayed as CUDA graphs give what eager gives, whatever happens between them."""

import gc
import threading

import pytest
import torch
from on_gpu import needs_gpu
from torch import nn

import braze

pytestmark = needs_gpu


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def compiled(function):
    return braze.compile(function, mode="reduce-overhead")


def graphs(fast):
    """The facts of all programs, added up."""
    facts = [program.cuda_graphs() for program in fast.programs()]
    reasons = {each["skipped"] for each in facts} - {""}
    return {name: sum(each[name] for each in facts) for name in ("graphs", "recorded", "replayed", "plain")} | {
        "skipped": "; ".join(sorted(reasons)),
        "apart": [why for each in facts for why in each["apart"]],
    }


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64)).cuda().eval()


def test_loop_of_fresh_arguments_alternates_between_two_recordings():
    model = network()
    fast = compiled(model)
    for _ in range(12):
        x = torch.randn(32, 64, device="cuda")
        y = fast(x)
        torch.testing.assert_close(y, model(x))
    facts = graphs(fast)
    assert facts["replayed"] == 11 and facts["plain"] == 1 and facts["recorded"] <= 6, facts
    assert fast.counts()["replayed"] == 11


def test_results_that_are_kept_are_never_overwritten():
    model = network()
    fast = compiled(model)
    batches = [torch.randn(8, 64, device="cuda") for _ in range(10)]
    kept = [fast(x) for x in batches]
    for x, y in zip(batches, kept, strict=True):
        torch.testing.assert_close(y, model(x))
    facts = graphs(fast)
    assert facts["replayed"] >= 2 and facts["plain"] >= 2, facts
    del kept, y
    before = facts["replayed"]
    for x in batches:
        torch.testing.assert_close(fast(x), model(x))
    assert graphs(fast)["replayed"] == before + 10


def test_a_view_of_a_result_keeps_it():
    fast = compiled(lambda x: x * 2 + 1)
    x = torch.arange(16.0, device="cuda")
    views = []
    for k in range(6):
        views.append(fast(x + k)[3:5])
    for k, view in enumerate(views):
        assert view.tolist() == [(3 + k) * 2 + 1, (4 + k) * 2 + 1]


def test_a_batch_that_is_refilled_is_read_in_place():
    model = network()
    fast = compiled(model)
    x = torch.empty(32, 64, device="cuda")
    for k in range(6):
        x.fill_(k / 7)
        torch.testing.assert_close(fast(x), model(x))
    assert graphs(fast)["recorded"] <= 2


def test_parameters_that_move_are_seen():
    model = network()
    fast = compiled(model)
    x = torch.randn(4, 64, device="cuda")
    for step in range(6):
        torch.testing.assert_close(fast(x), model(x))
        if step == 2:
            model[0].weight.data = torch.randn_like(model[0].weight)
        if step == 4:
            model[0].weight.mul_(3)
    torch.testing.assert_close(fast(x), model(x))


def test_results_fed_back():
    fast = compiled(lambda x: torch.tanh(x * 1.5) + 0.1)
    x = y = torch.randn(100, device="cuda")
    for _ in range(20):
        x, y = fast(x), torch.tanh(y * 1.5) + 0.1
        torch.testing.assert_close(x, y)
    assert graphs(fast)["replayed"] >= 15


def test_results_of_one_program_outlive_replays_of_another():
    first, second = network(), network()
    deep = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6)), nn.Softmax(-1)).cuda()
    one, two, three = compiled(first), compiled(second), compiled(deep)
    kept = []
    for _ in range(3):
        x = torch.randn(64, 64, device="cuda")
        kept += [(one(x), first(x)), (three(x), deep(x)), (two(x), second(x)), (one(x + 1), first(x + 1))]
        for got, wanted in kept[-6:]:
            torch.testing.assert_close(got, wanted)


def test_several_shapes():
    model = network()
    fast = braze.compile(model, mode="reduce-overhead", dynamic=False)
    for k in range(18):
        x = torch.randn(1 + k % 3, 64, device="cuda")
        torch.testing.assert_close(fast(x), model(x))
    assert graphs(fast)["replayed"] >= 15


def test_written_arguments_and_buffers():
    state = torch.zeros(64, device="cuda")

    def step(total, x):
        total.add_(x.sum(0))
        state.mul_(0.9).add_(x.mean(0))
        return total * 2

    fast = compiled(step)
    total, wanted_total = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    wanted_state = torch.zeros(64, device="cuda")
    for _ in range(8):
        x = torch.randn(16, 64, device="cuda")
        versions = total._version, state._version
        y = fast(total, x)
        assert total._version > versions[0] and state._version > versions[1]
        wanted_total.add_(x.sum(0))
        wanted_state.mul_(0.9).add_(x.mean(0))
        torch.testing.assert_close(total, wanted_total)
        torch.testing.assert_close(state, wanted_state)
        torch.testing.assert_close(y, wanted_total * 2)
    assert graphs(fast)["replayed"] >= 5


def test_an_argument_that_is_written_and_moves_is_never_recorded():
    fast = compiled(lambda x: x.add_(1).sum())
    kept = []
    for _ in range(6):
        x = torch.zeros(10, device="cuda")
        kept.append(x)
        assert fast(x).item() == 10 and x.tolist() == [1.0] * 10
    assert "elsewhere" in graphs(fast)["skipped"]


def test_random_numbers_are_eagers():
    def noisy(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.randn_like(x)

    fast = compiled(noisy)
    x = torch.ones(1000, device="cuda")
    torch.manual_seed(5)
    wanted = [noisy(x) for _ in range(6)]
    torch.manual_seed(5)
    got = [fast(x).clone() for _ in range(6)]
    for a, b in zip(wanted, got, strict=True):
        torch.testing.assert_close(a, b)


def test_results_that_are_arguments_and_views_of_them():
    def both(x, y):
        return x, x[1:], y + 1

    fast = compiled(both)
    for _ in range(5):
        x, y = torch.randn(4, 3, device="cuda"), torch.randn(3, device="cuda")
        a, b, c = fast(x, y)
        assert a is x and b._base is x and b.data_ptr() == x[1:].data_ptr()
        torch.testing.assert_close(c, y + 1)


def test_a_graph_break_has_a_recording_on_either_side():
    def broken(x):
        y = (x * 2).relu()
        print(end="")
        return (y + 1).sum(-1)

    fast = compiled(broken)
    for _ in range(6):
        x = torch.randn(5, 7, device="cuda")
        torch.testing.assert_close(fast(x), broken(x))
    facts = graphs(fast)
    assert facts["recorded"] >= 2 and facts["replayed"] >= 8, facts


def replays(fast, function, arguments, times=6):
    """Calls both with fresh arguments; the facts of the compiled one."""
    for _ in range(times):
        given = arguments()
        torch.testing.assert_close(fast(*given), function(*given))
    return graphs(fast)


def test_kernels_on_the_cpu_run_between_graphs():
    def mixed(x):
        y = torch.softmax(x * 2 + 1, -1) @ x
        on_cpu = (y.sum(-1).cpu() * 3).tanh()
        return (y.relu() @ x).sum(), on_cpu, (on_cpu.cuda() * y).softmax(-1) @ x

    fast = compiled(mixed)
    facts = replays(fast, mixed, lambda: [torch.randn(5, 5, device="cuda")])
    assert facts["graphs"] >= 2 and facts["replayed"] == 5 and facts["skipped"] == "", facts
    assert any("cpu" in why for why in facts["apart"]), facts


def test_too_little_on_the_gpu_is_no_graph():
    fast = compiled(lambda x: (x + 1).cpu() * 2)
    facts = replays(fast, lambda x: (x + 1).cpu() * 2, lambda: [torch.randn(5, device="cuda")])
    assert facts["replayed"] == 0 and "cpu" in facts["skipped"], facts


def test_arguments_on_the_cpu_are_read_anew():
    def scaled(x, weights, factor):
        y = (x @ x).softmax(-1) * factor
        return (y + weights.cuda()).relu() @ x

    fast = compiled(scaled)
    facts = replays(
        fast, scaled, lambda: [torch.randn(4, 4, device="cuda"), torch.randn(4), torch.rand((), device="cpu")]
    )
    assert facts["replayed"] == 5, facts


def test_operators_of_others_run_between_graphs():
    kept = torch.zeros(6, 6, device="cuda")

    @torch.library.custom_op("graph_parts::shuffled", mutates_args=())
    def shuffled(x: torch.Tensor, by: int) -> torch.Tensor:
        kept.copy_(x.roll(by, 0))
        return kept.clone() if by == 1 else x.roll(by, 0)

    shuffled.register_fake(lambda x, by: torch.empty_like(x))

    def around(x):
        y = shuffled((x @ x).softmax(-1), 1)  # Read by a graph,
        z = shuffled((y @ x).relu(), 2)  # a result and read by a graph,
        return z, (z @ y).softmax(-1) @ x, shuffled(x, 3)  # and a result only.

    fast = compiled(around)
    facts = replays(fast, around, lambda: [torch.randn(6, 6, device="cuda")], times=8)
    assert facts["graphs"] >= 2 and facts["replayed"] == 7, facts
    assert any("graph_parts::shuffled" in why for why in facts["apart"]), facts
    results = [fast(torch.full((6, 6), float(k), device="cuda")) for k in range(5)]
    for k, got in enumerate(results):  # All are alive: none was overwritten.
        torch.testing.assert_close(got, around(torch.full((6, 6), float(k), device="cuda")))


def test_an_error_between_graphs_is_the_callers():
    @torch.library.custom_op("graph_parts::moody", mutates_args=())
    def moody(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 1000:
            raise ValueError("too much")
        return x + 1

    moody.register_fake(lambda x: torch.empty_like(x))

    def around(x):
        return (moody((x * 2).relu() @ x) @ x).softmax(-1)

    fast = compiled(around)
    x = torch.eye(4, device="cuda")
    for _ in range(3):
        torch.testing.assert_close(fast(x), around(x))
        with pytest.raises(ValueError, match="too much"):
            fast(x * 1000)
    facts = replays(fast, around, lambda: [torch.randn(4, 4, device="cuda")])
    assert facts["replayed"] >= 5, facts


def test_writes_between_and_behind_graphs():
    total = torch.zeros(4, device="cuda")

    @torch.library.custom_op("graph_parts::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        return x * 1.5

    counted.register_fake(lambda x: torch.empty_like(x))

    def step(state, x):
        y = counted((x @ x).softmax(-1))
        state.mul_(0.5).add_(y.sum(0))
        total.add_((y @ x).relu().sum(-1))
        return y @ x

    fast = compiled(step)
    state, wanted_state = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    for _ in range(6):
        x = torch.randn(4, 4, device="cuda")
        before = total.clone()
        got, after = fast(state, x), total.clone()
        total.copy_(before)
        torch.testing.assert_close(got, step(wanted_state, x))
        torch.testing.assert_close(total, after)
        torch.testing.assert_close(state, wanted_state)
    assert graphs(fast)["replayed"] == 5, graphs(fast)


def test_temporaries_are_shared_by_recordings():
    def deep(x):
        for _ in range(6):
            x = (x @ x).softmax(-1) + x.relu().sum(-1, keepdim=True)
        return x.sum()

    x = torch.randn(512, 512, device="cuda")
    many = [compiled(lambda x, k=k: deep(x) + k) for k in range(8)]
    for k, fast in enumerate(many):
        for _ in range(3):
            torch.testing.assert_close(fast(x), deep(x) + k)
    for _ in range(2):
        for k, fast in enumerate(many):
            torch.testing.assert_close(fast(x), deep(x) + k)


def test_on_a_cpu_nothing_is_recorded_and_nothing_raises():
    fast = compiled(lambda x: x + 1)
    for _ in range(3):
        assert fast(torch.zeros(2)).tolist() == [1, 1]
    assert graphs(fast)["recorded"] == 0 and graphs(fast)["skipped"]


def test_streams():
    model = network()
    fast = compiled(model)
    x = torch.randn(16, 64, device="cuda")
    wanted = model(x)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(4):
        torch.testing.assert_close(fast(x), wanted)
        for stream in streams:
            with torch.cuda.stream(stream):
                got = fast(x)
            stream.synchronize()
            torch.testing.assert_close(got, wanted)


def test_inside_of_somebody_elses_recording():
    fast = compiled(lambda x: x * 3 + 1)
    x = torch.ones(8, device="cuda")
    for _ in range(3):
        fast(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = fast(x)
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [16.0] * 8


def test_threads():
    model = network()
    fast = compiled(model)
    failures = []

    def work(seed):
        generator = torch.Generator("cuda").manual_seed(seed)
        with torch.no_grad():
            for _ in range(30):
                x = torch.randn(8, 64, device="cuda", generator=generator)
                if not torch.allclose(fast(x), model(x), atol=1e-4):
                    failures.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_results_outlive_the_function():
    fast = compiled(lambda x: x + 1)
    x = torch.zeros(1 << 20, device="cuda")
    for _ in range(4):
        y = fast(x)
    del fast
    gc.collect()
    others = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(8)]
    assert y.sum().item() == 1 << 20
    del others


def test_an_operator_that_waits_runs_between_graphs():
    def spectral(x):
        y = torch.linalg.eigvals((x @ x).softmax(-1) + x).abs()
        return (y.softmax(-1) * 2 @ x).relu() @ x

    fast = compiled(spectral)
    facts = replays(fast, spectral, lambda: [torch.randn(6, 6, device="cuda")], times=8)
    # Whether it could be recorded is the library's affair; the rest is, and afterwards the device works.
    assert facts["replayed"] >= 5, facts
    assert torch.ones(3, device="cuda").sum().item() == 3
    torch.manual_seed(1)
    wanted = torch.randn(4, device="cuda")
    noisy = compiled(lambda x: x + torch.randn_like(x))
    for _ in range(4):
        torch.manual_seed(1)
        torch.testing.assert_close(noisy(torch.zeros(4, device="cuda")), wanted)


def test_backend_cudagraphs():
    fast = braze.compile(lambda x: x.softmax(-1), backend="cudagraphs")
    x = torch.randn(4, 8, device="cuda")
    for _ in range(4):
        torch.testing.assert_close(fast(x), x.softmax(-1))
    assert graphs(fast)["replayed"] == 3


def test_out_of_range_is_told_later():
    table = torch.randn(10, 4, device="cuda")
    fast = compiled(lambda at: torch.nn.functional.embedding(at, table) + 1)
    good, bad = torch.tensor([1, 2], device="cuda"), torch.tensor([1, 12], device="cuda")
    for _ in range(3):
        fast(good)
    fast(bad)
    torch.cuda.synchronize()
    with pytest.raises(RuntimeError, match="index out of range"):
        fast(good)
    torch.testing.assert_close(fast(good), torch.nn.functional.embedding(good, table) + 1)


def test_the_log_says_what_was_recorded_and_what_not(caplog):
    braze.set_logs(cudagraphs=True)
    try:
        with caplog.at_level("INFO", logger="braze.cudagraphs"):
            fast = compiled(lambda x: x * 2)
            for _ in range(3):
                fast(torch.ones(3, device="cuda"))
            slow = compiled(lambda x: (x * 2).cpu() + 1)
            for _ in range(3):
                slow(torch.ones(3, device="cuda"))
    finally:
        braze.set_logs()
    assert "recorded a CUDA graph" in caplog.text and "no CUDA graph: " in caplog.text


def test_one_recording_serves_a_bucket_of_sizes():
    net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).cuda().eval()
    fast = braze.compile(net, dynamic=True, options={"cudagraphs": True, "size_buckets": "16, 32"})
    with torch.no_grad():
        for n in (13, 16, 9, 11, 10, 15, 12, 30, 17, 20, 25):
            x = torch.randn(n, 32, device="cuda")
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-5)
    (facts,) = [program.cuda_graphs() for program in fast.programs()]  # of the size used last
    assert facts["recorded"] == 1 and facts["replayed"] >= 2, facts
