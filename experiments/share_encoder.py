"""Makes a draft that reads its target's encoder, of one with its own.

    python -m experiments.share_encoder --gin_file=share_encoder.gin

leaves a checkpoint for `experiments.distill` to start from, as that shape or a
larger one. It computes nearly what the draft computes; without training it is
no better.
"""

import logging
import pathlib
from typing import Any

import numpy as np

from experiments import checkpoint, compilation_cache, environment, gin_cli
from experiments.checks import check_integers
from experiments.decoding.pair import weights_checksum
from experiments.paths import resolve
from experiments.progress import progress_bar
from experiments.records import write_json
from experiments.training import data as training_data
from experiments.training.run import MODEL
from experiments.training.seqio_task import SeqioTask
from specdec_jax import t5
from specdec_jax.training import batching
from specdec_jax.training.encoder_sharing import share_encoder

log = logging.getLogger(__name__)

RESULT = "share_encoder.json"

CONFIGURABLES = (training_data.TextFiles, SeqioTask)


def run(
  *,
  draft: str,
  target: str,
  data: training_data.Examples,
  output_dir: str,
  examples: int = 2000,
  max_tokens: int = 128,
  tokens_per_batch: int = 2048,
  overwrite: bool = False,
) -> pathlib.Path:
  """Makes the draft.

  Args:
    draft: A T5's checkpoint, which has an encoder.
    target: The T5 whose encoder is to be shared.
    data: A `TextFiles` or a `SeqioTask`; over the sources of its training
      split the two encoders are compared.
    output_dir: The draft goes into its folder "model".
    examples: How many of them.
    max_tokens: Longer ones are left out.
    tokens_per_batch: Padded tokens that are encoded side by side.
    overwrite: Whether to replace a draft that is there.

  Returns:
    The new draft's path.

  Raises:
    FileExistsError: If something is there that may not be replaced.
    FileNotFoundError: If a file is missing.
    ValueError: If something does not fit together, or an example is bad.
  """
  check_integers(
    1,
    examples=examples,
    max_tokens=max_tokens,
    tokens_per_batch=tokens_per_batch,
  )
  folder = pathlib.Path(output_dir)
  if (folder / MODEL).exists() and not overwrite:
    raise FileExistsError(
      f"{folder / MODEL} is there. Choose another output_dir, or set"
      " share_encoder.overwrite=True to replace it."
    )
  models = [_load(path) for path in (draft, target)]
  pairs = data.load("train", max_tokens=max_tokens, limit=examples)
  training_data.check_kind(pairs, decoder_only=False, split="train")
  widths = tuple(range(32, max_tokens + 32, 32))
  batches = batching.in_order(
    pairs, batching.Batching(max(tokens_per_batch, widths[-1]), widths)
  )
  with progress_bar("compare", total=len(batches)) as advance:

    def inputs():
      for batch in batches:
        yield np.asarray(batch.inputs)
        advance(1)

    config, params, explained = share_encoder(*models[0], *models[1], inputs())
  t5.save(folder / MODEL, t5.T5Model(config), params, overwrite=overwrite)
  result: dict[str, Any] = {
    "draft": {"path": draft, "weights": weights_checksum(models[0][1])},
    "target": {"path": target, "weights": weights_checksum(models[1][1])},
    "data": dict(vars(data)),
    "examples": training_data.checksum(pairs),
    "texts": len(pairs),
    "explained": explained,
    "environment": environment.describe("float32"),
    "command": environment.command(),
  }
  write_json(folder / RESULT, result)
  log.info(
    "%s: a matrix times the target's encoding is %.1f%% of the draft's",
    folder / MODEL,
    100 * explained,
  )
  return folder / MODEL


def _load(path: str):
  model, params = checkpoint.load(resolve(path))
  if not isinstance(model, t5.T5Model):
    raise ValueError(
      f"{path} is a {type(model).__name__}, which has no encoder; give a T5's"
      " checkpoint."
    )
  return model, params


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  logging.getLogger("absl").setLevel(logging.WARNING)
  compilation_cache.enable()
  gin_cli.main(run, name="share_encoder", configurables=CONFIGURABLES)
