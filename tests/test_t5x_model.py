"""The T5X model against T5X's own: same weights, same batch, same tokens."""

import importlib.util

import pytest

if importlib.util.find_spec("t5x") is None:
  pytest.skip(
    "t5x is not installed; it is in no package index: pip install '.[t5x]'",
    allow_module_level=True,
  )

import jax
import jax.numpy as jnp
import numpy as np
import seqio
from t5x import adafactor, decoding, models
from t5x.examples.scalable_t5 import network as scalable_network
from t5x.examples.t5 import network

from specdec_jax import t5
from specdec_jax.t5x_model import SpeculativeEncoderDecoderModel

BATCH, SOURCE, TARGET = 3, 9, 12
SHAPE = {
  "vocab_size": 48,
  "emb_dim": 16,
  "num_heads": 2,
  "num_encoder_layers": 2,
  "num_decoder_layers": 3,
  "head_dim": 4,
  "mlp_dim": 32,
  "dropout_rate": 0.0,
}
V1_0 = {"mlp_activations": ("relu",), "logits_via_embedding": True}
V1_1 = {"mlp_activations": ("gelu", "linear"), "logits_via_embedding": False}
NETWORKS = {
  "t5_1_0": lambda: network.Transformer(network.T5Config(**SHAPE, **V1_0)),
  "t5_1_1": lambda: network.Transformer(network.T5Config(**SHAPE, **V1_1)),
  "scalable": lambda: scalable_network.Transformer(
    scalable_network.T5Config(**SHAPE, **V1_1, scan_layers=False)
  ),
  "scanned": lambda: scalable_network.Transformer(
    scalable_network.T5Config(**SHAPE, **V1_1, scan_layers=True)
  ),
}
VOCABULARY = seqio.PassThroughVocabulary(48, eos_id=1)


def arguments(module):
  return {
    "module": module,
    "input_vocabulary": VOCABULARY,
    "output_vocabulary": VOCABULARY,
    "optimizer_def": adafactor.Adafactor(1e-3),
  }


@pytest.fixture(scope="session")
def draft_path(tmp_path_factory):
  config = t5.T5Config(**(SHAPE | V1_1 | {"num_decoder_layers": 1}))
  model = t5.T5Model(config)
  path = tmp_path_factory.mktemp("draft") / "checkpoint"
  t5.save(path, model, model.init(jax.random.key(7)))
  return str(path)


@pytest.fixture(scope="session", params=NETWORKS)
def pair(request, draft_path):
  """T5X's model, ours, the parameters of both, and a batch."""
  module = NETWORKS[request.param]()
  theirs = models.EncoderDecoderModel(
    **arguments(module), decode_fn=decoding.temperature_sample
  )
  ours = SpeculativeEncoderDecoderModel(
    **arguments(module), draft_path=draft_path, gamma=3
  )
  return theirs, ours, random_params(theirs), batch()


def random_params(model):
  """Initial values, but for scales and biases, which would hide mistakes."""
  variables = model.get_initial_variables(
    jax.random.PRNGKey(0),
    {
      "encoder_input_tokens": (BATCH, SOURCE),
      "decoder_input_tokens": (BATCH, TARGET),
    },
    {
      "encoder_input_tokens": jnp.int32,
      "decoder_input_tokens": jnp.int32,
    },
  )
  leaves, tree = jax.tree.flatten(variables["params"])
  rng = np.random.default_rng(3)
  return jax.tree.unflatten(
    tree,
    [x * rng.uniform(0.5, 2.0, x.shape).astype(np.float32) for x in leaves],
  )


def batch():
  rng = np.random.default_rng(5)
  tokens = rng.integers(2, 48, (BATCH, SOURCE)).astype(np.int32)
  tokens[1, 5:] = 0
  return {
    "encoder_input_tokens": tokens,
    "decoder_input_tokens": np.zeros((BATCH, TARGET), np.int32),
    "decoder_target_tokens": np.zeros((BATCH, TARGET), np.int32),
    "decoder_loss_weights": np.zeros((BATCH, TARGET), np.int32),
  }


def predict(model, params, batch, **options):
  """As T5X predicts: in a program whose arguments are these alone."""
  return jax.jit(
    lambda params, batch: model.predict_batch_with_aux(params, batch, **options)
  )(params, batch)


def test_greedy_decodes_are_t5xs(pair):
  theirs, ours, params, batch = pair
  expected, expected_aux = predict(
    theirs, params, batch, decoder_params={"rescale_log_probs": False}
  )
  decodes, aux = predict(ours, params, batch)
  np.testing.assert_array_equal(decodes, expected)
  assert len(np.unique(decodes)) > 2
  np.testing.assert_allclose(
    aux["scores"], expected_aux["scores"], rtol=1e-4, atol=1e-4
  )
