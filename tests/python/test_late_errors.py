"""What ATen raises while a program runs reaches the handler around the operator, whatever C++ calls it."""

import pytest
import torch

import braze

RAISING = {
    # std::runtime_error, and no c10::Error
    "limit": lambda x, v: torch.clamp(x, v),
    "order of a norm": lambda x, v: torch.linalg.vector_norm(x, v),
    "factor": lambda x, v: torch.add(x, x, alpha=v),
    "fill": lambda x, v: x.fill_(v),
}


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("name", RAISING)
def test_handler_of_what_a_program_raises(name, breaks):
    operator = RAISING[name]
    log = []

    def f(x, v):
        y, told = x * 2, ["begun"]
        if breaks:
            log.append(id(y) > 0)
        try:
            told.append(operator(y, v).tolist())
        except RuntimeError as error:
            told.append(str(error))
        finally:
            told.append("done")
        return y, told

    compiled = braze.compile(f)
    for v in (1.0, 1j, 1j, 2.0, 2.5):
        x = torch.arange(4.0)
        wanted, got = f(x, v), compiled(x, v)
        assert wanted[1] == got[1]
        torch.testing.assert_close(wanted[0], got[0])
