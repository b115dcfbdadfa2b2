"""Gradients on a GPU that are handed out before the backward has ended, to whoever waits for them."""

import functools

import pytest
import torch
from on_gpu import needs_gpu
from staged_models import WIDTH, stack, step
from torch import nn

import braze

pytestmark = needs_gpu


def trained(compile, hook=None, stream=None, retain=False):
    """(Losses, order of the hooks in the last backward, parameters and their gradients, the input's gradient.)"""
    model = stack().cuda()
    call = compile(model)
    order, losses = [], []

    def note(p, name):
        order.append(name)
        if hook:
            hook(p)

    for name, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(functools.partial(note, name=name))
    for k in range(4):
        order.clear()
        x = torch.randn(64, WIDTH, generator=torch.manual_seed(k)).cuda().requires_grad_()
        x.register_hook(lambda _: order.append("input"))
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            loss = call(x).square().mean()
            loss.backward(retain_graph=retain)
            if retain:
                loss.backward()
        torch.cuda.synchronize()
        losses.append(loss.item())
    return losses, list(order), [(p.detach(), p.grad) for p in model.parameters()], x.grad, call


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("hook, retain", [(None, False), (None, True), (step, False)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_hooks_run_within_the_backward(dynamic, hook, retain, stream):
    stream = torch.cuda.Stream() if stream else None
    *eager, _ = trained(lambda model: model, hook, stream, retain)
    *ours, compiled = trained(lambda model: braze.compile(model, dynamic=dynamic), hook, stream, retain)
    torch.testing.assert_close(ours[0], eager[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours[2:], eager[2:], rtol=1e-3, atol=1e-5)
    assert sorted(ours[1]) == sorted(eager[1])
    # The last layer's gradient is given before the first one's is computed.
    assert ours[1].index("0.weight") > 8 and ours[1].index("input") > 8, ours[1]
    assert compiled.counts()["native"] == 0, compiled.reasons()


def test_an_optimizer_in_the_backward_frees_gradients():
    """Gradients go as they are stepped: never are all of them there."""

    def peak(compile):
        model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(12))).cuda()
        call = compile(model)
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step)
        x = torch.randn(32, 1024, device="cuda")
        for _ in range(3):
            torch.cuda.reset_peak_memory_stats()
            begun = torch.cuda.memory_allocated()
            call(x).sum().backward()
        return torch.cuda.max_memory_allocated() - begun

    assert peak(braze.compile) < 0.6 * 12 * 4 * 1024**2, "half of the gradients"


def test_cuda_graphs_run_at_once():
    *eager, _ = trained(lambda model: model, step)
    *ours, compiled = trained(lambda model: braze.compile(model, mode="reduce-overhead"), step)
    torch.testing.assert_close(ours[2:], eager[2:], rtol=1e-3, atol=1e-5)
    assert compiled.counts()["native"] == 0, compiled.reasons()
