"""Writes a T5 as a T5X checkpoint, for T5X's own scripts to restore.

python -m experiments.t5x_checkpoint --output_dir=runs/t5x/target \
      --gin.t5x_checkpoint.checkpoint='"experiments/assets/ende/target"'
"""

import dataclasses
import pathlib

import jax.numpy as jnp
import seqio
from flax.core import freeze
from t5x import adafactor, checkpoints, models, partitioning, utils
from t5x.examples.t5.network import T5Config, Transformer

from experiments import gin_cli
from experiments.paths import resolve
from specdec_jax import t5
from specdec_jax.t5x_model import NOT_IN_T5X


def run(
  *,
  checkpoint: str,
  output_dir: str,
  size: str | None = None,
  step: int = 0,
) -> pathlib.Path:
  """Writes the parameters alone, through T5X and orbax.

  Args:
    checkpoint: Anything that `t5.load` reads.
    output_dir: Where the folder checkpoint_STEP goes.
    size: A published size, where the checkpoint does not tell its shape.
    step: The step that T5X takes it to be of.

  Returns:
    The path of checkpoint_STEP, T5X's CHECKPOINT_PATH.

  Raises:
    FileExistsError: If there is such a folder already.
    FileNotFoundError: If there is no checkpoint.
    ValueError: If it is none, or T5X's network has no such shape.
  """
  path = pathlib.Path(output_dir).resolve() / f"checkpoint_{step}"
  if path.exists():
    raise FileExistsError(f"There is {path}; remove it, or set another step.")
  model, params = t5.load(size, resolve(checkpoint))
  network = t5x_config(model.config)

  vocabulary = seqio.PassThroughVocabulary(model.vocab_size)
  names = ("encoder_input_tokens", "decoder_input_tokens")
  partitioner = partitioning.PjitPartitioner(num_partitions=1)
  state = utils.TrainStateInitializer(
    None,
    models.EncoderDecoderModel(
      Transformer(T5Config(**network)),
      vocabulary,
      vocabulary,
      adafactor.Adafactor(),
    ).get_initial_variables,
    dict.fromkeys(names, (1, 1)),
    partitioner,
    dict.fromkeys(names, jnp.int32),
  ).global_train_state_shape
  # T5X takes a folder that does not exist for a file's name.
  path.parent.mkdir(parents=True, exist_ok=True)
  manager = checkpoints.OrbaxCheckpointManagerInterface(
    str(path.parent), state, partitioner
  )
  manager.save(
    state.replace(params=freeze(params), step=jnp.asarray(step, jnp.int32))
  )
  manager.close()
  return path


def t5x_config(config: t5.T5Config) -> dict:
  """Returns the arguments of T5X's `T5Config` for the minimal T5.

  Raises:
    ValueError: If the minimal T5 has no such shape.
  """
  for name in NOT_IN_T5X:
    default = getattr(t5.T5Config(), name)
    if getattr(config, name) != default:
      raise ValueError(
        f"{name} is {getattr(config, name)}, and T5X's minimal T5 has"
        f" {default}; give another checkpoint."
      )
  fields = dataclasses.asdict(config)
  return {name: fields[name] for name in fields if name not in NOT_IN_T5X}


if __name__ == "__main__":
  gin_cli.main(run, name="t5x_checkpoint")
