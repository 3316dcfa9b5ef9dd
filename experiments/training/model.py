"""The model to train: its kind, where it starts, and how it is saved."""

import dataclasses
import logging

import jax

from experiments.paths import resolve
from specdec_jax import lm, t5
from specdec_jax.array_typing import Array, Key, Params
from specdec_jax.training import growth

log = logging.getLogger(__name__)

Config = t5.T5Config | lm.LMConfig
Model = t5.T5Model | lm.LMModel

# bfloat16 is what accelerators are fast in, and what processors are slow in.
_DTYPES = {"cpu": "float32"}


def make(model: Config | str, dtype: str | None = None) -> Model:
  """Returns a model that computes in a dtype.

  Args:
    model: Its shape, or the name of a size: a key of `t5.CONFIGS` or of
      `lm.CONFIGS`.
    dtype: "float32" or "bfloat16"; None for float32 on a processor and
      bfloat16 on an accelerator. Parameters are float32 in both.

  Raises:
    ValueError: If there is no such size or dtype.
  """
  if isinstance(model, str):
    sizes: dict[str, Config] = {**t5.CONFIGS, **lm.CONFIGS}
    if model not in sizes:
      raise ValueError(
        f"There is no model named {model!r}; the sizes are {', '.join(sizes)}."
      )
    config = sizes[model]
  else:
    config = model
  if dtype is None:
    dtype = _DTYPES.get(jax.default_backend(), "bfloat16")
  config = dataclasses.replace(config, dtype=dtype)
  if isinstance(config, lm.LMConfig):
    return lm.LMModel(config)
  return t5.T5Model(config)


def is_decoder_only(model: Model) -> bool:
  """Whether a model has no encoder."""
  return isinstance(model, lm.LMModel)


def load(model: Model, path: str, size: str | None = None):
  """Loads a checkpoint of the same kind of model.

  Args:
    model: The model whose kind is wanted.
    path: The checkpoint.
    size: Its size, for T5X's checkpoints, which do not tell their shape.

  Returns:
    The checkpoint's model and its parameters, in float32.
  """
  package = lm if is_decoder_only(model) else t5
  return package.load(size, resolve(path), dtype="float32")


def start(
  key: Key[Array, ""],
  model: Model,
  initial: str | None,
  initial_size: str | None = None,
) -> Params:
  """Returns the parameters before the first step.

  Args:
    key: For what is random.
    model: The model.
    initial: A checkpoint to start from; None for random values. A T5 of
      another shape is cut into more layers if its mlp_dim is a multiple of the
      model's (`growth.unfold`), then grown to the model's (`growth.grow`).
    initial_size: Its size, where its folder does not tell.

  Raises:
    ValueError: If the checkpoint's shape does not fit.
  """
  if initial is None:
    return model.init(key)
  found, params = load(model, initial, initial_size)
  if _shape(found) == _shape(model):
    return params
  if isinstance(model, lm.LMModel) or isinstance(found, lm.LMModel):
    raise ValueError(
      f"{initial} has the shape {found.config}, and {model.config} is to be"
      " trained; a language model starts from its own shape alone."
    )
  shape, parts = found.config, found.config.mlp_dim // model.config.mlp_dim
  unfold_key, grow_key = jax.random.split(key)
  if parts > 1:
    log.info("cuts each layer of %s into %d", initial, parts)
    shape, params = growth.unfold(unfold_key, shape, params, parts)
  log.info("grows from the shape of %s", initial)
  return growth.grow(grow_key, shape, params, model.config)


def save(path, model: Model, params: Params) -> None:
  """Saves the trained model as bfloat16, over one that is there."""
  # One function for both kinds.
  t5.save(path, model, params, dtype="bfloat16", overwrite=True)


def _shape(model: Model):
  return dataclasses.replace(model.config, dtype="float32", dropout_rate=0.0)
