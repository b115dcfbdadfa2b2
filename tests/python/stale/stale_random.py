"""Random numbers: every call draws what plain Python draws, replayed or not, whatever happens in between."""

import os
import random

import torch
from staleness import case, module, tensor

# A row that is not there. On a GPU that ends the process: what is drawn is compared without an error there.
BEYOND = 2 if os.environ.get("BRAZE_TEST_DEVICE") else 9
TABLE = "import random\nimport contextlib\ntable = torch.ones(4, 2)\ngenerator = torch.Generator()\n"


def draws(name, body, *calls, setup="", reset=lambda m: torch.manual_seed(0), evolves=True):
    """Each call goes on where the one before it has stopped."""

    @case(name=name, evolves=evolves)
    def cases():
        m = module(TABLE + setup + "\ndef f(x, i):\n    " + body.replace("\n", "\n    "))
        reset(m)
        yield m.f, tensor(2), torch.tensor([0])
        for index in calls or (1, BEYOND, 0, 1):
            yield tensor(2), torch.tensor([index])

    return cases


draws("after_an_error", "r = torch.rand(2)\nreturn table[i] * r")
draws("after_an_error_of_embedding", "r = torch.randn(2)\nreturn torch.nn.functional.embedding(i, table) * r")
draws("after_an_error_of_gather", "r = torch.rand(2)\nreturn x.gather(0, i) * r")
draws("after_an_error_twice", "r = torch.rand(2)\nreturn table[i] * r", 9, 9, 0, 9, 1)
draws("drawn_after_the_error", "y = table[i] * 2\nreturn y * torch.rand(2)")
draws("dropout_after_an_error", "return torch.nn.functional.dropout(table[i], 0.5) * x")
draws("permutation_after_an_error", "p = torch.randperm(5)\nreturn table[i] + p.sum()")
draws("integers_after_an_error", "p = torch.randint(0, 9, (2,))\nreturn table[i] + p")
draws("bernoulli_after_an_error", "p = torch.bernoulli(x / 10)\nreturn table[i] + p")
draws("normal_after_an_error", "p = torch.normal(x, 1.0)\nreturn table[i] + p")
draws("in_place_after_an_error", "p = torch.empty(2).uniform_()\nreturn table[i] + p")
draws(
    "in_callee_after_an_error", "return g(i) * torch.rand(2)", setup="def g(i): return torch.rand(2) * table[i]\n"
)
draws(
    "own_generator_after_an_error",
    "r = torch.rand(2, generator=generator)\nreturn table[i] * r",
    reset=lambda m: m.generator.manual_seed(0),
)
draws("like", "return torch.rand_like(x) * table[i]")
draws("seeded_inside", "torch.manual_seed(3)\ny = torch.rand(2) * table[i]\nreturn y, torch.rand(1)")
draws("forked", "with torch.random.fork_rng(): r = torch.rand(2)\nreturn table[i] * r, torch.rand(1)")
draws(
    "forked_and_seeded",
    "with torch.random.fork_rng():\n    torch.manual_seed(3)\n    r = torch.rand(2)\nreturn table[i] * r",
)
draws(
    "state_read",
    "s = torch.get_rng_state()\nr = torch.rand(2)\ntorch.set_rng_state(s)\nreturn table[i] * r, torch.rand(2)",
)
draws("pythons_random", "return table[i] * random.random()", reset=lambda m: random.seed(0))
draws("pythons_choice", "return table[i] * random.choice([1, 2, 3, 4, 5])", reset=lambda m: random.seed(0))
draws(
    "pythons_random_between",
    "y = x * 2\nk = random.randint(1, 9)\nreturn y * k + table[i]",
    reset=lambda m: random.seed(0),
)
draws("pythons_shuffle", "k = [1, 2, 3]\nrandom.shuffle(k)\nreturn table[i] * k[0]", reset=lambda m: random.seed(1))
draws(
    "numpys_random",
    "return table[i] * float(np.random.rand())",
    setup="import numpy as np\n",
    reset=lambda m: m.np.random.seed(0),
)
draws(
    "both",
    "r = torch.rand(2)\nreturn table[i] * r * random.random()",
    reset=lambda m: (random.seed(0), torch.manual_seed(0)),
)
draws("generator_in_default", "return table[i] * torch.rand(2, generator=torch.default_generator)")


@case
def seeded_between_calls():
    m = module("def f(x): return x * torch.rand(4)")

    def f(x):
        torch.manual_seed(seed[0])
        return m.f(x)

    seed = [1]
    yield f, tensor()
    seed[0] = 2


@case
def generator_given():
    m = module("def f(x, g): return x * torch.rand(4, generator=g)")
    made = [torch.Generator() for _ in range(2)]

    def f(x, k):
        made[k].manual_seed(k)
        return m.f(x, made[k])

    yield f, tensor(), 0
    yield tensor(), 1
