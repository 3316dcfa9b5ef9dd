import dataclasses

import jax
import jax.numpy as jnp
import jaxtyping
import pytest

from specdec_jax import sampling, t5
from specdec_jax.kv_cache import KVCache
from specdec_jax.verification import verify


def test_signatures_are_checked():
  with pytest.raises(jaxtyping.TypeCheckError, match="uniform"):
    sampling.sample(jnp.zeros((2, 2)), jnp.ones((2, 5)))


def test_a_letter_is_one_size_per_call():
  with pytest.raises(jaxtyping.TypeCheckError, match="weights"):
    sampling.sample(jnp.zeros(2), jnp.ones((3, 5)))


def test_pytrees_hold_any_leaf():
  cache = KVCache(jnp.zeros((1, 2, 3, 4)), jnp.zeros((1, 2, 3, 4)))
  shapes = jax.tree.map(lambda leaf: leaf.shape, cache)
  assert dataclasses.astuple(shapes) == ((1, 2, 3, 4), (1, 2, 3, 4))


def test_the_check_can_be_lifted(unchecked):
  with pytest.raises(ValueError, match=r"target_probs has shape \(1, 2, 5\)"):
    verify(
      jax.random.key(0),
      jnp.zeros((1, 2), jnp.int32),
      jnp.ones((1, 2, 5)),
      jnp.ones((1, 2, 5)),
    )


def test_a_network_passes_them():
  model = t5.T5Model(
    t5.T5Config(
      vocab_size=12,
      emb_dim=8,
      num_heads=2,
      num_encoder_layers=1,
      num_decoder_layers=1,
      head_dim=4,
      mlp_dim=8,
    )
  )
  params = jax.tree.map(
    lambda leaf: jnp.ones(leaf.shape, leaf.dtype), model.param_shapes()
  )
  inputs = jnp.array([[3, 4, 0], [5, 6, 7]])
  prefill = model.prefill(params, inputs, 5)
  tokens = jnp.stack([prefill.token, prefill.token], axis=1)
  logits, _ = model.extend(params, tokens, prefill.position, prefill.cache)
  assert logits.shape == (2, 2, 12)
  encoded = model.encode(params, inputs)
  assert model.decode(params, encoded, inputs, tokens).shape == (2, 2, 12)
