"""Decoders that keep keys and values from call to call, and generate(), compiled against eager."""

import copy
import random

import pytest
import torch
from architectures import ARCHITECTURES, VOCABULARY

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
DECODERS = ("gpt2", "opt", "bloom", "llama", "mistral")  # bench/breaks.py has more.
STEPS = 4
# Calls with a static cache that are more than one segment, and why. A row goes when they are.
BROKEN = {
    "opt": "a length that is the value of a tensor",
}


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def built(name, auto=None):
    """A model of `transformers`, or what the auto class `auto` makes of its configuration."""
    import transformers

    torch.manual_seed(7)
    module, inputs = ARCHITECTURES[name](random.Random(f"{name} decoders"))
    if auto:
        module.config.use_cache = True
        module = getattr(transformers, auto).from_config(module.config)
    return module.requires_grad_(False).eval(), inputs


def new_cache(kind, config):
    from transformers import DynamicCache, StaticCache

    return StaticCache(config=config, max_cache_len=12) if kind == "static" else DynamicCache(config=config)


def held(cache):
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-4)


def decode(call, module, kind):
    """Hidden states of a prompt and of single tokens, each call continuing the one before; and the cache."""
    ids = torch.randint(5, VOCABULARY, (2, STEPS + 5), generator=torch.Generator().manual_seed(3))
    cache = new_cache(kind, module.config)
    states, places = [], []
    for step in range(STEPS):
        new = ids[:, :5] if step == 0 else ids[:, step + 4 : step + 5]
        output = call(input_ids=new, past_key_values=cache, use_cache=True)
        assert output.past_key_values is cache
        states.append(output.last_hidden_state)
        places.append([tensor.data_ptr() for tensor in held(cache)])
    if kind == "static":
        assert all(place == places[0] for place in places)  # Written in place.
    return states, cache


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("name", DECODERS)
def test_a_cache_that_is_passed(name, kind):
    module, _ = built(name)
    fast = C.CompiledFunction(module)
    wanted, wanted_cache = decode(module, module, kind)
    for _ in range(2):
        states, cache = decode(fast, module, kind)
        close(states, wanted)
        close(held(cache), held(wanted_cache))
        assert cache.get_seq_length() == wanted_cache.get_seq_length()
    assert fast.reasons() == {}
    if kind == "static" and name in BROKEN:
        return
    assert [s["break"] for s in fast.report()["segments"] if s["break"]] == []
    # A static cache has one shape for the prompt and one for all tokens after it; a sliding one counts in Python.
    # A dynamic one is any length long from the third program on.
    captured = 2 if kind == "static" or name == "mistral" else 3
    assert fast.counts() == {"captured": captured, "replayed": 2 * STEPS - captured, "native": 0}


GENERATIONS = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "temperature": 0.8, "top_k": 20},
    "beams": {"do_sample": False, "num_beams": 3},
    "static": {"do_sample": False, "cache_implementation": "static", "disable_compile": True},
}


def generate(module, inputs, **options):
    torch.manual_seed(5)
    tokens = module.generate(**inputs, max_new_tokens=5, min_new_tokens=5, **options)
    return tokens, torch.get_rng_state()


def check_generation(module, inputs, options):
    wanted = generate(module, inputs, **options)
    module.forward = braze.compile(module.forward)
    for _ in range(2):
        tokens, state = generate(module, inputs, **options)
        assert torch.equal(tokens, wanted[0])
        assert torch.equal(state, wanted[1])
    counts = module.forward.counts()
    assert counts["native"] == 0 and counts["replayed"] >= counts["captured"]


@pytest.mark.parametrize("how", GENERATIONS)
def test_generate(how):
    module, inputs = built("llama", "AutoModelForCausalLM")
    check_generation(module, inputs, GENERATIONS[how])


@pytest.mark.parametrize(
    ("name", "auto"),
    [("t5", "AutoModelForSeq2SeqLM"), ("bart", "AutoModelForSeq2SeqLM"), ("whisper", "AutoModelForSpeechSeq2Seq")],
)
def test_generate_from_an_encoder(name, auto):
    module, inputs = built(name, auto)
    module.generation_config.decoder_start_token_id = 1
    del inputs["decoder_input_ids"]
    check_generation(module, inputs, GENERATIONS["static" if name == "t5" else "greedy"])


@pytest.mark.parametrize("how", ["greedy", "sampled", "beams"])
@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_encoder_and_a_cache_that_grows(name, how):
    """The first token, the second, and all others: also where relative positions are compared, and clamped."""
    module, inputs = built(name, "AutoModelForSeq2SeqLM")
    module.generation_config.decoder_start_token_id = 1
    del inputs["decoder_input_ids"]
    options = GENERATIONS[how] | {"max_new_tokens": 24, "min_new_tokens": 24}
    torch.manual_seed(5)
    wanted = module.generate(**inputs, **options)
    module.forward = braze.compile(module.forward)
    torch.manual_seed(5)
    assert torch.equal(module.generate(**inputs, **options), wanted)
    assert module.forward.counts() == {"captured": 3, "replayed": 21, "native": 0}
    assert module.forward.reasons() == {}
    assert [s["break"] for s in module.forward.report()["segments"] if s["break"]] == []


def test_generate_called_within_a_compiled_function():
    module, inputs = built("gpt2", "AutoModelForCausalLM")
    wanted = generate(module, inputs)
    fast = C.CompiledFunction(lambda: generate(module, inputs))
    for _ in range(3):
        tokens, state = fast()
        assert torch.equal(tokens, wanted[0]) and torch.equal(state, wanted[1])
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_a_cache_that_is_copied_and_cropped_between_calls():
    module, inputs = built("llama")
    fast = C.CompiledFunction(module)
    ids = inputs["input_ids"][:, :5]
    caches = [new_cache("dynamic", module.config) for _ in range(2)]
    for call, cache in zip((module, fast), caches, strict=True):
        call(input_ids=ids, past_key_values=cache, use_cache=True)
        cache.crop(-2)
        other = copy.deepcopy(cache)
        call(input_ids=ids[:, :2], past_key_values=other, use_cache=True)
        assert other.get_seq_length() == 5 and cache.get_seq_length() == 3
        call(input_ids=ids[:, 1:3], past_key_values=cache, use_cache=True)
    close(held(caches[1]), held(caches[0]))
