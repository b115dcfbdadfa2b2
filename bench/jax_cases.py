"""The small cases of cases.py written for JAX, with the same shapes and the same amount of work."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def _information(features, query):
    p = jax.nn.softmax(features, axis=-1)
    return -(p * jnp.log(p + 1e-9)).sum(axis=-1)


def _salience(features, query):
    batch, tokens, _ = features.shape
    side = int(tokens**0.5)
    grid = features.mean(axis=-1).reshape(batch, 1, side, side)
    sobel = jnp.array([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])

    def convolve(kernel):
        return jax.lax.conv_general_dilated(grid, kernel[None, None], (1, 1), ((1, 1), (1, 1)))

    edges = jnp.sqrt(convolve(sobel) ** 2 + convolve(sobel.T) ** 2 + 1e-8)
    window, padding = (1, 1, 3, 3), ((0, 0), (0, 0), (1, 1), (1, 1))
    pooled = jax.lax.reduce_window(grid, 0.0, jax.lax.add, window, (1, 1, 1, 1), padding) / 9.0
    return (edges + jnp.abs(grid - pooled)).reshape(batch, tokens)


def _query_content(features, query):
    scores = query @ features.transpose(0, 2, 1) / jnp.sqrt(jnp.float32(features.shape[-1]))
    return jax.nn.softmax(scores, axis=-1)[:, 0]


def _scorers(features, query):
    return _information(features, query), _salience(features, query), _query_content(features, query)


def _mlp(x, w1, b1, w2, b2):
    return jax.nn.gelu(x @ w1.T + b1, approximate=False) @ w2.T + b2


def _normal(*shapes):
    generator = np.random.default_rng(0)
    return tuple(jnp.asarray(generator.standard_normal(shape, dtype=np.float32)) for shape in shapes)


def _tokens():
    return _normal((32, 196, 768), (32, 1, 768))


# name of the case -> (function, inputs on the device)
CASES = {
    "x+1": (lambda x: x + 1, lambda: (jnp.arange(10, dtype=jnp.float32),)),
    "mlp": (_mlp, lambda: _normal((64, 512), (2048, 512), (2048,), (512, 2048), (512,))),
    "information": (_information, _tokens),
    "salience": (_salience, _tokens),
    "query-content": (_query_content, _tokens),
    "scorers": (_scorers, _tokens),
}
