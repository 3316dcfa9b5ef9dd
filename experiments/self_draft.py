"""Makes a draft of some of its target's layers, to be trained as a draft.

    python -m experiments.self_draft --gin_file=self_draft.gin

leaves a checkpoint for `experiments.distill` to start from. As it is, it drafts
just as `PairConfig.self_draft_layers` does; distilled, its layers are its own,
and no longer the target's, whose law stays what it was. (For layers that stay
the target's, and learn to draft, train the target: `train/ende_exits.gin`.)
"""

import logging
import pathlib
from collections.abc import Sequence

from experiments import checkpoint, compilation_cache, environment, gin_cli
from experiments.decoding.pair import weights_checksum
from experiments.records import write_json
from experiments.training.run import MODEL
from specdec_jax import t5

log = logging.getLogger(__name__)

RESULT = "self_draft.json"


def run(
  *,
  target: str,
  layers: Sequence[int],
  output_dir: str,
  overwrite: bool = False,
) -> pathlib.Path:
  """Makes the draft.

  Args:
    target: A T5's or a language model's checkpoint.
    layers: The decoder layers to take, ascending from 0; see `t5.self_draft`.
    output_dir: The draft goes into its folder "model".
    overwrite: Whether to replace a draft that is there.

  Returns:
    The draft's path.

  Raises:
    FileExistsError: If something is there that may not be replaced.
    FileNotFoundError: If there is no such checkpoint.
    ValueError: If the target has not these layers.
  """
  folder = pathlib.Path(output_dir)
  if (folder / MODEL).exists() and not overwrite:
    raise FileExistsError(
      f"{folder / MODEL} is there. Choose another output_dir, or set"
      " self_draft.overwrite=True to replace it."
    )
  model, params = checkpoint.load(target)
  draft, draft_params = t5.self_draft(model, params, layers)
  t5.save(folder / MODEL, draft, draft_params, overwrite=overwrite)
  result = {
    "target": {"path": target, "weights": weights_checksum(params)},
    "layers": list(layers),
    "command": environment.command(),
  }
  write_json(folder / RESULT, result)
  log.info("%s: layers %s of %s", folder / MODEL, tuple(layers), target)
  return folder / MODEL


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  logging.getLogger("absl").setLevel(logging.WARNING)
  compilation_cache.enable()
  gin_cli.main(run, name="self_draft", configurables=())
