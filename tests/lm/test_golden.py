"""The network against T5X's own decoder-only example; see tests/golden."""

import pathlib

import numpy as np
import pytest
from flax import traverse_util

from specdec_jax import lm
from tests.lm import tiny

FILE = pathlib.Path(__file__).parent.parent / "golden/t5x_decoder_only.npz"
MODEL = lm.LMModel(
  lm.LMConfig(
    vocab_size=48,
    emb_dim=16,
    num_heads=4,
    num_layers=2,
    head_dim=8,
    mlp_dim=32,
  )
)


@pytest.fixture(scope="module")
def golden():
  with np.load(FILE) as arrays:
    return dict(arrays)


def test_t5x_logits(golden):
  prefix = "params/"
  flat = {
    name.removeprefix(prefix): array
    for name, array in golden.items()
    if name.startswith(prefix)
  }
  shapes = traverse_util.flatten_dict(MODEL.param_shapes(), sep="/")
  assert {name: each.shape for name, each in flat.items()} == {
    name: each.shape for name, each in shapes.items()
  }
  params = traverse_util.unflatten_dict(flat, sep="/")
  logits = tiny.decode(MODEL, params, golden["decoder_input_tokens"])
  wanted = golden["logits"]
  np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-5 * wanted.std())
