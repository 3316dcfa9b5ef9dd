import dataclasses
import importlib.util

import pytest

if importlib.util.find_spec("t5x") is None:
  pytest.skip(
    "t5x is not installed; it is in no package index: pip install '.[t5x]'",
    allow_module_level=True,
  )

import jax
import numpy as np

from experiments import t5x_checkpoint
from specdec_jax import t5

CONFIG = t5.T5Config(
  vocab_size=16,
  emb_dim=8,
  num_heads=2,
  head_dim=4,
  mlp_dim=16,
  num_encoder_layers=1,
  num_decoder_layers=2,
)


def saved(folder, config=CONFIG):
  model = t5.T5Model(config)
  params = model.init(jax.random.key(0))
  t5.save(folder, model, params)
  return str(folder), params


def test_what_t5x_wrote_is_what_was_given(tmp_path):
  checkpoint, params = saved(tmp_path / "ours")
  path = t5x_checkpoint.run(
    checkpoint=checkpoint, output_dir=str(tmp_path / "t5x"), step=7
  )
  assert path == tmp_path / "t5x" / "checkpoint_7"
  _, loaded = t5.load(CONFIG, path)
  jax.tree.map(np.testing.assert_array_equal, loaded, params)
  with pytest.raises(FileExistsError, match="checkpoint_7"):
    t5x_checkpoint.run(
      checkpoint=checkpoint, output_dir=str(tmp_path / "t5x"), step=7
    )


def test_a_shape_that_t5x_has_not_is_refused(tmp_path):
  config = dataclasses.replace(CONFIG, relative_attention_num_buckets=8)
  checkpoint, _ = saved(tmp_path / "ours", config)
  with pytest.raises(ValueError, match="num_buckets is 8, and T5X's .* 32"):
    t5x_checkpoint.run(checkpoint=checkpoint, output_dir=str(tmp_path / "t5x"))
  assert not (tmp_path / "t5x").exists()
