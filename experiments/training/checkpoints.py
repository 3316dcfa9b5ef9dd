"""Checkpoints of a run: whole, or not there."""

import pathlib
from typing import Any

from specdec_jax.training.step import TrainState

FOLDER = "checkpoints"


class Checkpoints:
  """The newest two states of a run, by orbax.

  A state is written into a folder of another name, which is renamed when all
  is written. So a kill or a full disk leaves the states before it, and what is
  half-written is removed at the next start.
  """

  def __init__(self, output_dir: str):
    """Opens the folder, and makes it if it is not there."""
    import orbax.checkpoint as ocp

    self._folder = pathlib.Path(output_dir).resolve() / FOLDER
    self._folder.mkdir(parents=True, exist_ok=True)
    self._args = ocp.args
    self._manager = ocp.CheckpointManager(
      self._folder,
      options=ocp.CheckpointManagerOptions(
        max_to_keep=2,
        enable_async_checkpointing=False,
        cleanup_tmp_directories=True,
      ),
    )

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self._manager.close()

  @property
  def newest(self) -> int | None:
    """The step of the newest state; None if there is none."""
    return self._manager.latest_step()

  def save(self, state: TrainState, done: int, notes: dict[str, Any]) -> None:
    """Saves a state.

    Args:
      state: The state.
      done: Steps done.
      notes: What else the next start needs, as JSON.
    """
    before = self.newest
    try:
      self._manager.save(
        done,
        args=self._args.Composite(
          state=self._args.StandardSave(state),
          notes=self._args.JsonSave(notes),
        ),
      )
    except Exception as error:
      error.add_note(
        f"The state of step {done} was not saved in {self._folder}; the newest"
        f" there is of step {before}. Start the same command again when the"
        " cause is gone (a full disk?): it goes on from there."
      )
      raise

  def restore(self, state: TrainState) -> tuple[TrainState, dict[str, Any]]:
    """Returns the newest state and its notes.

    Args:
      state: Shapes, dtypes and shardings of the state.

    Raises:
      ValueError: If it cannot be read.
    """
    step = self.newest
    try:
      found = self._manager.restore(
        step,
        args=self._args.Composite(
          state=self._args.StandardRestore(state),
          notes=self._args.JsonRestore(),
        ),
      )
    except Exception as error:
      raise ValueError(
        f"{self._folder / str(step)} cannot be read ({error}). Delete that"
        " folder to go on from the state before it, or set resume=False to"
        " start afresh."
      ) from error
    return found["state"], found["notes"]
