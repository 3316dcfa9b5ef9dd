import jax
import pytest

from experiments.training import model as training_model
from specdec_jax import lm, t5
from tests.experiments import tiny_training


@pytest.mark.parametrize(
  ("backend", "dtype"),
  [("cpu", "float32"), ("gpu", "bfloat16"), ("tpu", "bfloat16")],
)
def test_the_dtype_is_the_backends_unless_told(monkeypatch, backend, dtype):
  monkeypatch.setattr(jax, "default_backend", lambda: backend)
  config = t5.T5Config(**tiny_training.SIZES)
  assert training_model.make(config).config.dtype == dtype
  for each in ("float32", "bfloat16"):
    assert training_model.make(config, each).config.dtype == each


def test_sizes_of_both_kinds_have_names():
  model = training_model.make("gpt_6m")
  assert model == lm.LMModel(lm.CONFIGS["gpt_6m"])
  assert training_model.is_decoder_only(model)
  model = training_model.make("t5_1_1_small")
  assert model == t5.T5Model(t5.CONFIGS["t5_1_1_small"])
  assert not training_model.is_decoder_only(model)


def test_a_language_model_does_not_grow(tmp_path):
  sizes = {
    "vocab_size": 8,
    "emb_dim": 4,
    "num_heads": 1,
    "num_layers": 1,
    "head_dim": 4,
    "mlp_dim": 4,
  }
  small = lm.LMModel(lm.LMConfig(**sizes))
  key = jax.random.key(0)
  path = str(tmp_path / "small")
  training_model.save(path, small, small.init(key))
  params = training_model.start(key, small, path)
  assert jax.tree.structure(params) == jax.tree.structure(small.param_shapes())
  larger = lm.LMModel(lm.LMConfig(**{**sizes, "mlp_dim": 8}))
  with pytest.raises(ValueError, match="starts from its own shape alone"):
    training_model.start(key, larger, path)
