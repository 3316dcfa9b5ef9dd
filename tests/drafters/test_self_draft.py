"""A target that drafts for itself with some of its layers."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import lm, t5
from specdec_jax.training import step
from tests import toy

INPUTS = toy.inputs(4, 7)


def t5_target(**changes):
  config = dataclasses.replace(
    toy.T5_TARGET.config, num_decoder_layers=4, **changes
  )
  return t5.T5Model(config)


TARGETS = {
  "t5 1.1": t5_target(),
  "t5 1.0": t5_target(logits_via_embedding=True, mlp_activations=("relu",)),
  "biases of each layer": t5_target(relative_bias_per_layer=True),
  "lm": lm.LMModel(
    lm.LMConfig(
      vocab_size=48,
      emb_dim=16,
      num_heads=2,
      num_layers=4,
      head_dim=8,
      mlp_dim=32,
    )
  ),
}
TARGET = TARGETS["t5 1.1"]
CHOICES = [
  *((name, (1, 3)) for name in TARGETS),
  ("t5 1.1", (0,)),
  ("t5 1.1", (0, 1, 2, 3)),
  ("lm", (0, 1, 2, 3)),
]


@functools.cache
def params_of(target):
  return target.init(jax.random.key(0))


def pair(target, layers, params=None):
  params = params_of(target) if params is None else params
  return toy.Pair(target, params, *t5.self_draft(target, params, layers))


def silenced(params, layers):
  """The target whose other layers add nothing to what passes through them."""

  def change(path, value):
    names = [entry.key for entry in path]
    is_layer = names[0] == "decoder" and names[1].startswith("layers_")
    if not is_layer or int(names[1].removeprefix("layers_")) in layers:
      return value
    return 0 * value if {"out", "wo"} & set(names) else value

  return jax.tree_util.tree_map_with_path(change, params)


@pytest.mark.parametrize(("name", "layers"), CHOICES, ids=str)
def test_its_logits_are_those_of_the_target_without_the_others(name, layers):
  target, params = TARGETS[name], params_of(TARGETS[name])
  draft, draft_params = t5.self_draft(target, params, layers)
  texts = jnp.asarray(toy.inputs(4, 6, seed=1))
  inputs = jnp.asarray(INPUTS if name != "lm" else np.zeros_like(texts))
  logits = jax.jit(step.token_logits, static_argnums=0)
  encoded = None if name == "lm" else target.encode(params, inputs)
  found = logits(draft, draft_params, inputs, texts, encoded=encoded)
  expected = logits(target, silenced(params, layers), inputs, texts)
  np.testing.assert_allclose(found, expected, atol=1e-5)
  whole = logits(target, params, inputs, texts)
  assert np.allclose(found, whole, atol=1e-3) == (len(layers) == 4)


@pytest.mark.parametrize("name", TARGETS)
def test_no_array_is_copied(name):
  target, params = TARGETS[name], params_of(TARGETS[name])
  draft, draft_params = t5.self_draft(target, params, (1, 3))
  owned = {id(leaf) for leaf in jax.tree.leaves(params)}
  assert all(id(leaf) in owned for leaf in jax.tree.leaves(draft_params))
  shapes = jax.tree.map(jnp.shape, draft_params)
  assert shapes == jax.tree.map(jnp.shape, draft.param_shapes())
  for i, layer in enumerate((1, 3)):
    found = draft_params["decoder"][f"layers_{i}"]
    assert found is params["decoder"][f"layers_{layer}"]


@pytest.mark.parametrize(("name", "layers"), CHOICES, ids=str)
def test_greedy_output_is_the_baselines(name, layers):
  models = pair(TARGETS[name], layers)
  options = {"max_new_tokens": 12, "temperature": 0.0, "eos_id": -1}
  found = models.speculative(INPUTS, gamma=3, **options)
  expected = models.baseline(INPUTS, **options)
  np.testing.assert_array_equal(found.tokens, expected.tokens)
  kept = np.sum(found.stats.accepted) / np.sum(found.stats.examined)
  assert (kept == 1) == (len(layers) == 4)


def test_laid_out_parameters_serve_as_well():
  # Wide enough for blocks.
  config = dataclasses.replace(TARGET.config, emb_dim=384, mlp_dim=384)
  target = t5.T5Model(config)
  params = target.lay_out(params_of(target), "cpu")
  assert "wi_blocks" in params["decoder"]["layers_0"]["mlp"]
  models = pair(target, (0, 2), params)
  options = {"max_new_tokens": 8, "temperature": 0.0, "eos_id": -1}
  found = models.speculative(INPUTS, gamma=2, **options)
  expected = models.baseline(INPUTS, **options)
  np.testing.assert_array_equal(found.tokens, expected.tokens)


@pytest.mark.parametrize("name", ["t5 1.1", "lm"])
def test_a_row_depends_neither_on_its_neighbours_nor_on_padding(name):
  models = pair(TARGETS[name], (0, 1))
  keys = jax.random.split(jax.random.key(5), len(INPUTS))
  options = {"gamma": 2, "max_new_tokens": 10, "temperature": 1.0}
  together = models.speculative(INPUTS, keys, **options)
  for row in range(len(INPUTS)):
    wider = np.pad(INPUTS[row : row + 1], ((0, 0), (0, 3)))
    alone = models.speculative(wider, keys[row : row + 1], **options)
    np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])


def test_a_draft_that_is_made_anew_compiles_nothing():
  models = pair(TARGET, (0, 1))
  options = {"gamma": 2, "max_new_tokens": 6}
  models.speculative(INPUTS, **options)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(
      t5.T5Model, "extend", lambda *_: pytest.fail("traced once more")
    )
    again = pair(TARGET, range(2), models.target_params)
    again.speculative(INPUTS, **options)


def test_a_draft_can_draft_for_itself():
  # With the encoding that it reads itself.
  draft, params = t5.self_draft(TARGET, params_of(TARGET), (0, 1, 3))
  shorter, _ = t5.self_draft(draft, params, (0, 2))
  assert shorter == t5.self_draft(TARGET, params_of(TARGET), (0, 3))[0]
  assert shorter.config.encoded_dim == TARGET.config.emb_dim


@pytest.mark.parametrize(
  "layers", [(), (1, 0), (0, 0), (2, 4), (-1, 0), (0.0,)], ids=str
)
@pytest.mark.usefixtures("unchecked")
def test_layers_that_cannot_be_are_refused(layers):
  with pytest.raises(ValueError, match=r"of the decoder's 4 layers, 0 to 3"):
    pair(TARGET, layers)


@pytest.mark.usefixtures("unchecked")
def test_what_has_no_layers_is_refused():
  table = toy.table_pair()
  with pytest.raises(TypeError, match=r"model is TableModel; only a t5\.T5M"):
    t5.self_draft(table.target, table.target_params, (0,))
  assert lm.self_draft is t5.self_draft
  assert isinstance(sd.model_drafter(table.target), sd.Drafter)
