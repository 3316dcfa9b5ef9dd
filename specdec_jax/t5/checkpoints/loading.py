"""`load`: finds out what a folder holds, and reads it."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from specdec_jax.array_typing import Params
from specdec_jax.t5.checkpoints.assemble import assemble
from specdec_jax.t5.checkpoints.stored import Checkpoint, read_json
from specdec_jax.t5.config import (
  StackConfig,
  T5Config,
  check_dtype,
  get_config,
)
from specdec_jax.t5.flax_model import FlaxModel
from specdec_jax.t5.model import T5Model

_Model = TypeVar("_Model", bound=FlaxModel)

_NOT_COMPARED = ("dtype", "dropout_rate", "pad_id")
"""Fields of a config that are no property of the weights."""


def load(
  name: str | T5Config | None, path: Any, *, dtype: Any = None
) -> tuple[T5Model, Params]:
  """Loads a model and its parameters.

  Args:
    name: A published size (a key of `CONFIGS`), or a `T5Config`. None takes
      the shape from the checkpoint: Hugging Face's and ours have one, T5X's
      have not.
    path: A local folder or, for T5X's checkpoints and ours, gs://: Hugging
      Face's `save_pretrained`, T5X's checkpoint_STEP (legacy or orbax), the
      folder of a T5X run (its latest step is taken), or what `save` wrote.
    dtype: What to compute in, and what the matrices are held in: "float32"
      or "bfloat16"; norm scales and relative biases are float32 in both. None
      is the dtype of `name` where that is a `T5Config`, otherwise float32.

  Returns:
    The model and its parameters, on the default device.

  Raises:
    FileNotFoundError: If there is no such folder.
    ValueError: If the folder holds no checkpoint that is read here, a file is
      damaged, or a name or a shape is not the model's.
  """
  return load_kind(
    T5Model, T5Config, get_config, _open, name=name, path=path, dtype=dtype
  )


def load_kind(
  model_type: Callable[[Any], _Model],
  config_type: type[StackConfig],
  get_config: Callable[[str], StackConfig],
  open_folder: Callable[[Any], Checkpoint],
  *,
  name: Any,
  path: Any,
  dtype: Any,
) -> tuple[_Model, Params]:
  """Does what `load` of a package of models promises.

  Args:
    model_type: Makes the model of its config.
    config_type: The kind of config.
    get_config: Looks a size up by its name.
    open_folder: Opens the checkpoint in a folder that exists.
    name: As in `load`.
    path: As in `load`.
    dtype: As in `load`.
  """
  given = name
  if isinstance(name, str):
    given = get_config(name)
  elif name is not None and not isinstance(name, config_type):
    raise ValueError(
      f"name is {name!r}; give the name of a size, its"
      f" {config_type.__name__}, or None."
    )
  if dtype is None:
    dtype = name.dtype if isinstance(name, config_type) else "float32"
  dtype = check_dtype(dtype)
  checkpoint = open_folder(existing_folder(path))
  config = _agreed_config(name, given, checkpoint)
  model = model_type(dataclasses.replace(config, dtype=dtype))
  return model, assemble(model, checkpoint)


def _agreed_config(
  name: str | StackConfig | None,
  given: StackConfig | None,
  checkpoint: Checkpoint,
) -> StackConfig:
  stored = checkpoint.config
  if stored is None:
    if given is None:
      raise ValueError(
        f"name is None, and {checkpoint.path} does not tell its shape: T5X"
        " checkpoints have no config. Pass the model's name"
        " ('t5_1_1_small', ...) or its T5Config."
      )
    return given
  if given is None:
    return stored
  differences = [
    f"  {field.name}: {getattr(stored, field.name)!r} in the checkpoint,"
    f" {getattr(given, field.name)!r} asked for"
    for field in dataclasses.fields(stored)
    if field.name not in _NOT_COMPARED
    and getattr(stored, field.name) != getattr(given, field.name)
  ]
  if differences:
    asked = (
      repr(name)
      if isinstance(name, str)
      else f"the {type(given).__name__} given"
    )
    differences = "\n".join(differences)
    raise ValueError(
      f"{checkpoint.path} does not hold {asked}:\n{differences}\nPass the"
      " name of the model that was saved, or None to take the checkpoint's"
      " shape."
    )
  return given


def existing_folder(path: Any) -> Any:
  """Returns an `epath.Path` at which there is a folder.

  Args:
    path: A local path or gs://.

  Raises:
    FileNotFoundError: If there is nothing.
    ValueError: If it is a file.
  """
  from etils import epath

  path = epath.Path(path).expanduser()
  if not path.exists():
    raise FileNotFoundError(
      f"There is no checkpoint at {path}; give the folder that holds it."
    )
  if not path.is_dir():
    raise ValueError(f"{path} is a file; give the folder that holds it.")
  return path


def _open(path: Any) -> Checkpoint:
  # Here, not above: these import tensorstore, which takes its time.
  from specdec_jax.t5.checkpoints import huggingface, ours, t5x

  if (path / ours.CONFIG).exists():
    contents = read_json(path / ours.CONFIG)
    if ours.is_ours(contents):
      return ours.open_ours(path, contents, T5Config)
    return huggingface.open_huggingface(path, contents)
  step = path
  if not (t5x.is_legacy(path) or t5x.is_orbax(path)):
    step = t5x.latest_step(path) or path
  if t5x.is_legacy(step):
    return t5x.open_legacy(step)
  if t5x.is_orbax(step):
    return t5x.open_orbax(step)
  found = sorted(child.name for child in step.iterdir())
  raise ValueError(
    f"{step} holds no checkpoint: neither config.json (Hugging Face, or"
    " t5.save), nor `checkpoint` or `state` or checkpoint_STEP (T5X). It"
    f" holds {found[:8] if found else 'nothing'}."
  )
