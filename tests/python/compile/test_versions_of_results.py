"""Results that share memory count their writes as eager's do: together, or apart where `data` was asked for."""

import pytest
import torch

import braze


def data(x):
    return (x.data,)


def written_data(x):
    m = x.data
    m.add_(1)
    return (m,)


def data_of_result(x):
    s = x * 2
    return s, s.data


def data_first(x):
    s = x * 2
    m = s.data
    m.add_(1)
    s.add_(1)
    s.add_(1)
    return m, s.view(-1)


def data_of_data(x):
    s = x * 2
    m = s.data
    m.add_(1)
    return m.data, m[0], s, m, s[1:]


def detached(x):
    s = x * 2
    m = x.detach()
    return m, s.detach(), s, s.detach().data, m.data, m.data[0]


def view_before_its_base(x):
    m = x.data
    m.mul_(2)
    return m[0], m, x[0], x.data


def views_alone(x):
    s = x * 2
    m = s.data
    return m[0], m[1], s[0], s[1]


PROGRAMS = [
    data,
    written_data,
    data_of_result,
    data_first,
    data_of_data,
    detached,
    view_before_its_base,
    views_alone,
]


def versions_after_writes(results):
    """Each result is written in turn, so that whose counters are one shows."""
    told = [[one._version for one in results]]
    with torch.no_grad():
        for result in results:
            result.add_(1)
            told.append([one._version for one in results])
    return told


@pytest.mark.parametrize("made_by_autograd", [False, True])
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_eager(f, made_by_autograd):
    compiled = braze.compile(f, fullgraph=True)
    for _ in range(3):
        ours = torch.arange(4.0)
        theirs = ours.clone()
        with torch.set_grad_enabled(made_by_autograd):
            got, wanted = [*compiled(ours), ours], [*f(theirs), theirs]
        assert versions_after_writes(got) == versions_after_writes(wanted)
        assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


@pytest.mark.parametrize("f", PROGRAMS)
def test_as_eager_where_the_results_have_a_history(f):
    compiled = braze.compile(f)
    for _ in range(3):
        ours = torch.arange(4.0, requires_grad=True)
        theirs = torch.arange(4.0, requires_grad=True)
        with torch.no_grad():
            got, wanted = [*compiled(ours), ours], [*f(theirs), theirs]
        assert versions_after_writes(got) == versions_after_writes(wanted)


def test_backward_after_a_write_through_data():
    """Of what autograd has saved, a write through `data` tells it nothing."""

    def f(x):
        s = x * 2
        return s, s.data

    for call in (f, braze.compile(f)):
        x = torch.ones(3, requires_grad=True)
        s, m = call(x)
        y = (s**2).sum()
        m.add_(1)
        y.backward()
        torch.testing.assert_close(x.grad, torch.full((3,), 12.0))
