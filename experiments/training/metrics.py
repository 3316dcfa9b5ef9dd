"""What a run logs: lines of JSON, and TensorBoard's event files."""

import pathlib
import shutil
import time
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
      resume: Whether to keep what is there; otherwise it is deleted.

    Raises:
      ValueError: If what is there is of another run, or damaged.
    """
    self._events_folder = pathlib.Path(output_dir) / EVENTS
    self._records = Records(output_dir, METRICS, manifest, resume=resume)
    if not resume:
      shutil.rmtree(self._events_folder, ignore_errors=True)
    self._events = None

  def __enter__(self):
    return self

  def __exit__(self, *_):
    if self._events is not None:
      self._events.close()

  def go_on_from(self, done: int) -> None:
    """Drops all that belongs to later steps than `done`."""
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import (
      Event,  # type: ignore
      SessionLog,  # type: ignore
    )

    self._records.keep(
      sum(record["step"] <= done for record in self._records.done)
    )
    self._events_folder.mkdir(parents=True, exist_ok=True)
    is_restart = any(self._events_folder.iterdir())
    # What SummaryWriter has inside: that itself writes in a thread, which would
    # die on a full disk in silence. The suffix sets two files apart that begin
    # within a second.
    self._events = EventsWriter(str(self._events_folder / "events"), f".{done}")
    if is_restart:
      # TensorBoard forgets what earlier files have of these steps.
      restart = SessionLog(status=SessionLog.START)
      self._events.write_event(
        Event(wall_time=time.time(), step=done + 1, session_log=restart)
      )
    self._events.flush()

  def write(self, step: int, **values: float) -> None:
    """Adds a line, and hands it to the disk."""
    from tensorboardX.proto.event_pb2 import Event  # type: ignore
    from tensorboardX.proto.summary_pb2 import Summary  # type: ignore

    assert self._events is not None, "go_on_from comes first"
    self._records.append([{"step": step, **values}])
    scalars = [
      Summary.Value(tag=_tag(name), simple_value=value)
      for name, value in values.items()
    ]
    self._events.write_event(
      Event(wall_time=time.time(), step=step, summary=Summary(value=scalars))
    )
    self._events.flush()


def _tag(name: str) -> str:
  short = name.removeprefix("validation_")
  return f"{'train' if short == name else 'validation'}/{short}"
