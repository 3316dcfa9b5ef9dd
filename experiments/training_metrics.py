"""What a run logs: lines of JSON, and TensorBoard's event files."""

import os
import pathlib
from typing import Any

from experiments.records import Records

METRICS = "metrics.jsonl"
EVENTS = "tensorboard"


class MetricsLog:
  """metrics.jsonl, with the run's manifest beside it, and the same as events.

  The lines of steps that will be done again are dropped, so that each step has
  one line of each kind however often the run was interrupted.
  """

  def __init__(
    self, output_dir: str, manifest: dict[str, Any], *, resume: bool = True
  ):
    """Opens the log.

    Args:
      output_dir: The run's folder.
      manifest: All that the run's course depends on.
      resume: Whether to keep what is there.

    Raises:
      ValueError: If what is there is of another run, or damaged.
    """
    self._events_folder = pathlib.Path(output_dir) / EVENTS
    self._records = Records(output_dir, METRICS, manifest, resume=resume)
    self._events = None

  def __enter__(self):
    return self

  def __exit__(self, *_):
    if self._events is not None:
      self._events.close()

  def go_on_from(self, done: int) -> None:
    """Drops all that belongs to later steps than `done`."""
    from tensorboardX import SummaryWriter

    self._records.keep(
      sum(record["step"] <= done for record in self._records.done)
    )
    os.makedirs(self._events_folder, exist_ok=True)
    # TensorBoard forgets what earlier files have of these steps. The suffix
    # sets two files apart that begin within a second.
    self._events = SummaryWriter(
      str(self._events_folder),
      purge_step=done + 1 if done else None,
      filename_suffix=f".{done}",
    )

  def write(self, step: int, **values: float) -> None:
    """Adds a line, and hands it to the disk."""
    assert self._events is not None, "go_on_from comes first"
    self._records.append([{"step": step, **values}])
    for name, value in values.items():
      tag = name.removeprefix("validation_")
      group = "train" if tag == name else "validation"
      self._events.add_scalar(f"{group}/{tag}", value, step)
    self._events.flush()
