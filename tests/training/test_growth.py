"""A grown model computes what the smaller one computes, and can learn more."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax import t5
from specdec_jax.training import growth, optimizer, step

SMALL = t5.T5Config(
  vocab_size=24,
  emb_dim=8,
  num_heads=2,
  head_dim=4,
  mlp_dim=12,
  num_encoder_layers=1,
  num_decoder_layers=2,
  mlp_activations=("gelu", "linear"),
  logits_via_embedding=False,
  dropout_rate=0.0,
)
WIDER = {"emb_dim": 12, "num_heads": 3, "mlp_dim": 20}
DEEPER = {"num_encoder_layers": 2, "num_decoder_layers": 4}
INPUTS = jnp.array([[3, 4, 5, 1, 0, 0], [9, 2, 7, 11, 6, 1]])
TARGETS = jnp.array([[8, 7, 3, 1], [2, 2, 5, 1]])


@functools.cache
def small_params():
  params = t5.T5Model(SMALL).init(jax.random.key(0))
  # Norm scales of 1 would hide a scale that is lost.
  return jax.tree.map(lambda x: x * 1.1 if x.ndim == 1 else x, params)


def logits(config, params):
  return step.token_logits(t5.T5Model(config), params, INPUTS, TARGETS)


@pytest.mark.parametrize("change", [{}, WIDER, DEEPER, WIDER | DEEPER])
def test_grown_logits_are_the_small_models(change):
  larger = dataclasses.replace(SMALL, **change)
  params = growth.grow(jax.random.key(1), SMALL, small_params(), larger)
  expected = t5.T5Model(larger).init(jax.random.key(2))
  assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, expected)
  np.testing.assert_allclose(
    logits(larger, params), logits(SMALL, small_params()), atol=2e-5
  )


def test_tied_logits_may_grow_in_all_but_the_embedding():
  tied = dataclasses.replace(SMALL, logits_via_embedding=True)
  params = t5.T5Model(tied).init(jax.random.key(0))
  larger = dataclasses.replace(tied, num_heads=3, mlp_dim=20, **DEEPER)
  grown = growth.grow(jax.random.key(1), tied, params, larger)
  np.testing.assert_allclose(
    logits(larger, grown), logits(tied, params), atol=1e-5
  )


def test_every_new_value_learns():
  """After two steps no part of an array is where it was."""
  larger = dataclasses.replace(SMALL, **(WIDER | DEEPER))
  model = t5.T5Model(larger)
  before = growth.grow(jax.random.key(1), SMALL, small_params(), larger)
  transformation = optimizer.scaled_adam(lambda count: 0.1)
  # Copied, since a step takes its state's buffers.
  state = step.init(jax.tree.map(jnp.copy, before), transformation)
  train_step = step.make_train_step(model, transformation)
  for number in range(2):
    state, _ = train_step(state, INPUTS, TARGETS, jax.random.key(number))
  moved = jax.tree.map(lambda a, b: np.mean(a != b), before, state.params)
  for path, share in jax.tree_util.tree_flatten_with_path(moved)[0]:
    # Of these two only what the few tokens look up can move.
    looked_up = {"embedding", "rel_embedding"} & {each.key for each in path}
    least = 0.1 if looked_up else 0.9
    assert share > least, jax.tree_util.keystr(path)


def test_unfolded_layers_hold_the_whole_feed_forward_block():
  config, params = growth.unfold(jax.random.key(1), SMALL, small_params(), 3)
  assert (config.num_encoder_layers, config.num_decoder_layers) == (3, 6)
  assert config.mlp_dim == 4
  expected = t5.T5Model(config).param_shapes()
  assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, expected)
  for stack, layer in (("encoder", 0), ("decoder", 1)):
    whole = small_params()[stack][f"layers_{layer}"]["mlp"]
    parts = [params[stack][f"layers_{3 * layer + i}"]["mlp"] for i in range(3)]
    for name, axis in (("wi_0", 1), ("wi_1", 1), ("wo", 0)):
      kernels = [part[name]["kernel"] for part in parts]
      np.testing.assert_array_equal(
        np.concatenate(kernels, axis), whole[name]["kernel"]
      )


def test_unfolding_changes_logits_by_what_the_parts_say_to_each_other():
  """Exact if one part alone speaks; else small beside what the parts say."""

  def scaled(shares):
    # Decoder only, so that each part's share is plain to see.
    params = jax.tree.map(lambda x: x, small_params())
    units = jnp.repeat(jnp.array(shares), SMALL.mlp_dim // len(shares))
    for layer in ("layers_0", "layers_1"):
      mlp = params["decoder"][layer]["mlp"]
      mlp["wo"] = {"kernel": mlp["wo"]["kernel"] * units[:, None]}
    params["encoder"]["layers_0"]["mlp"]["wo"] = {
      "kernel": jnp.zeros((SMALL.mlp_dim, SMALL.emb_dim))
    }
    return params

  def change(params):
    config, deeper = growth.unfold(jax.random.key(1), SMALL, params, 2)
    return np.abs(logits(config, deeper) - logits(SMALL, params)).max()

  assert change(scaled([1.0, 0.0])) < 1e-5
  assert change(scaled([0.0, 1.0])) < 1e-5
  both, first = scaled([0.1, 0.1]), scaled([0.1, 0.0])
  said = np.abs(logits(SMALL, both) - logits(SMALL, first)).max()
  assert 1e-6 < change(both) < 0.3 * said


def test_what_cannot_be_unfolded_is_refused():
  with pytest.raises(ValueError, match="mlp_dim 12 and .* cut into 5"):
    growth.unfold(jax.random.key(0), SMALL, small_params(), 5)


@pytest.mark.parametrize(
  ("old", "new", "message"),
  [
    ({}, {"mlp_dim": 8}, "mlp_dim is 8, less than the 12"),
    ({}, {"head_dim": 8}, "head_dim is 8, but 4"),
    ({}, {"vocab_size": 32}, "vocab_size is 32, but 24"),
    (
      {"logits_via_embedding": True},
      {"logits_via_embedding": True, "emb_dim": 16},
      "emb_dim is 16, but 8",
    ),
  ],
)
def test_what_cannot_grow_is_refused(old, new, message):
  old = dataclasses.replace(SMALL, **old)
  with pytest.raises(ValueError, match=message):
    growth.grow(
      jax.random.key(0), old, small_params(), dataclasses.replace(SMALL, **new)
    )
