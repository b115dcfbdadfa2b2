"""What torch.amp.GradScaler is made of is compiled: gradients are checked and unscaled, the scale is adapted."""

import pytest
import torch

import braze

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bad", [None, INF, -INF, NAN])
def test_gradients_are_checked_and_unscaled(dtype, bad):
    def unscale(gradients, found, inverse):
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
        return [gradient * 2 for gradient in gradients]

    compiled, results = braze.compile(unscale), []
    for function in (unscale, compiled):
        torch.manual_seed(0)
        for scale in (1.0, 1 / 3, 1 / 1024):
            gradients = [torch.randn(size).to(dtype) * 100 for size in ((3,), (16, 8), (), (5, 7, 2))]
            if bad is not None and scale < 1:
                gradients[1][3, 2] = bad
            found = torch.zeros(1)
            doubled = function(gradients, found, torch.tensor(scale))
            results.append((doubled, gradients, found))
    for ours, theirs in zip(results[3:], results[:3], strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=0, atol=0)
    assert compiled.operators()["native"] == 0, compiled.operators()


def test_the_scale_is_adapted():
    def update(scale, tracker, found):
        return torch._amp_update_scale_(scale, tracker, found, 2.5, 0.3, 3) * 2

    compiled, results = braze.compile(update), []
    for function in (update, compiled):
        scale, tracker = torch.tensor(3e37), torch.tensor(0, dtype=torch.int32)
        for k in range(16):  # It grows up to the largest float, where it stays.
            twice = function(scale, tracker, torch.tensor([float(k in (4, 5))]))
            results.append((twice, scale.clone(), tracker.clone()))
    assert results[16:] == results[:16]
    assert compiled.operators()["native"] == 0, compiled.operators()


def test_a_whole_step():
    """The optimizer's step depends on a number that is read, which ends a graph; all around it is compiled."""

    def train(compile):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)

        def step(x):
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(x).square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        compiled = compile(step)
        for k in range(8):
            loss = compiled(torch.randn(3, 4) * (INF if k == 3 else 1))
            yield loss.detach(), scaler.get_scale(), [p.detach().clone() for p in model.parameters()]
        if compile is braze.compile:
            assert not [text for text in compiled.reasons() if "_amp_" in text], compiled.reasons()
            # Each update() puts another defaultdict in the place of what it kept by optimizer.
            counts = compiled.counts()
            assert counts["captured"] <= 4 and counts["replayed"] >= 4, counts

    for ours, theirs in zip(list(train(braze.compile)), list(train(lambda f: f)), strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=2e-2, atol=1e-2)
