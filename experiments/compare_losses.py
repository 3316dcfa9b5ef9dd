"""Whether a training run takes the course of another that was logged.

    python -m experiments.compare_losses experiments/results/ende_target \
      runs/ende_target

Both are folders that `experiments.train` wrote. Losses are compared wherever
both have one, so the new run may be shorter, or still be training. A run's
losses depend on its texts, its configuration and its seed, which the manifests
beside the logs tell, and a little on the machine: float32 sums in another order
differ in their last bits, and training makes such differences grow.
"""

import argparse
import json
import pathlib
import sys

from experiments.records import MANIFEST, differences, read_records
from experiments.training.metrics import METRICS

TOLERANCE = 1e-3


def compare(logged: pathlib.Path, found: pathlib.Path) -> dict[int, float]:
  """Returns, for each step that both runs logged, how far the losses differ.

  Args:
    logged: The folder of the run to compare with.
    found: The folder of the other run.

  Returns:
    By step, in order: the absolute difference of the training losses, each the
    mean over the tokens since the line before, in nats.

  Raises:
    FileNotFoundError: If a folder has no log or no manifest.
    ValueError: If the manifests differ, or the runs have no step in common.
  """
  manifests, losses = [], []
  for folder in (logged, found):
    for name in (MANIFEST, METRICS):
      if not (folder / name).is_file():
        raise FileNotFoundError(
          f"{folder} has no {name}; name a folder that experiments.train wrote."
        )
    manifests.append(json.loads((folder / MANIFEST).read_text("utf-8")))
    losses.append(_losses(folder / METRICS))
  if changes := differences(*manifests):
    raise ValueError(
      f"{logged} and {found} are not the same run: {'; '.join(changes)}."
    )
  common = sorted(losses[0].keys() & losses[1].keys())
  if not common:
    raise ValueError(
      f"{logged} and {found} have no step in common; train for longer, with"
      " the same LoopConfig.log_every."
    )
  return {step: abs(losses[0][step] - losses[1][step]) for step in common}


def _losses(path: pathlib.Path) -> dict[int, float]:
  return {
    each["step"]: each["loss"] for each in read_records(path) if "loss" in each
  }


def main(argv: list[str] | None = None) -> int:
  """Prints the differences; returns 1 if one is above the tolerance."""
  parser = argparse.ArgumentParser(
    description="Compares the training losses of two runs, step by step."
  )
  parser.add_argument("logged", type=pathlib.Path)
  parser.add_argument("found", type=pathlib.Path)
  parser.add_argument("--tolerance", type=float, default=TOLERANCE)
  arguments = parser.parse_args(argv)
  by_step = compare(arguments.logged, arguments.found)
  for step, difference in by_step.items():
    print(f"step {step:6}  difference {difference:.2e}")
  largest = max(by_step.values())
  print(
    f"{len(by_step)} lines to step {max(by_step)}: largest difference"
    f" {largest:.2e}, tolerance {arguments.tolerance:.0e}"
  )
  return int(not largest <= arguments.tolerance)


if __name__ == "__main__":
  try:
    sys.exit(main())
  except (FileNotFoundError, ValueError) as error:
    sys.exit(str(error))
