"""Lets a draft write, now and then, what it is trained on next."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import specdec_jax as sd
from experiments.training.data_mixture import MixedBatches
from specdec_jax.array_typing import Array, Int, Key, Params
from specdec_jax.keys import row_keys
from specdec_jax.t5.vocabulary import EOS_ID
from specdec_jax.training.step import Metrics, TrainState


class OnPolicyStep:
  """A train step that replaces the targets of "draft" batches.

  It is called like the step that it wraps, from any step on and then in order.
  Every so many steps the draft, as it is then, writes for all of them: in one
  batch for each width, so that the calls are few and large. No gradient passes
  through the sampling.
  """

  def __init__(
    self,
    train_step: Callable[..., tuple[TrainState, Metrics]],
    *,
    model: sd.DecoderModel,
    batches: MixedBatches,
    sampling: sd.SamplingConfig,
    key: Key[Array, ""],
    steps: int,
    every: int,
    joined: bool,
    place: Callable[[Any], Any],
  ):
    """Wraps a step.

    Args:
      train_step: From `make_train_step`.
      model: The draft.
      batches: What the steps read.
      sampling: How the draft draws. A row ends where its batch is wide.
      key: For the draws.
      steps: Of the whole run.
      every: Steps between two times that it writes. A run that goes on from a
        step that is no multiple writes anew for the rest.
      joined: As in `Batching`.
      place: Puts rows where the step wants them.
    """
    self._train_step = train_step
    self._model = model
    self._batches = batches
    self._sampling = sampling
    self._key = key
    self._steps = steps
    self._every = every
    self._joined = joined
    self._place = place
    self._next: int | None = None
    self._written: dict[int, Int[np.ndarray, "B T"]] = {}

  def __call__(
    self, state: TrainState, inputs, targets, *rest: Any
  ) -> tuple[TrainState, Metrics]:
    """Does a step."""
    # Asked once: to ask a device is to wait for it.
    number = int(state.step) if self._next is None else self._next
    self._next = number + 1
    if self._batches.kind(number) == "draft":
      if number not in self._written:
        end = min((number // self._every + 1) * self._every, self._steps)
        self._written = self._write(state.params, range(number, end))
      targets = self._place(self._written.pop(number))
    return self._train_step(state, inputs, targets, *rest)

  def _write(
    self, params: Params, steps: range
  ) -> dict[int, Int[np.ndarray, "B T"]]:
    """Returns the draft's outputs for those of the steps that want them."""
    by_shape = defaultdict(list)
    for each in steps:
      if self._batches.kind(each) == "draft":
        by_shape[self._batches[each].inputs.shape].append(each)
    written = {}
    for (rows, _), wanted in by_shape.items():
      inputs = np.concatenate([self._batches[each].inputs for each in wanted])
      keys = jnp.concatenate(
        [row_keys(jax.random.fold_in(self._key, each), rows) for each in wanted]
      )
      tokens = self._decode(params, inputs, keys, rows)
      if self._joined:
        tokens = _after(inputs, tokens)
      written |= dict(zip(wanted, np.split(tokens, len(wanted)), strict=True))
    return written

  def _decode(self, params, inputs, keys, rows) -> Int[np.ndarray, "B T"]:
    total, width = inputs.shape
    # Of few sizes, so that few programs are compiled.
    size = rows * 2 ** (total // rows - 1).bit_length()
    fillers = size - total
    output = sd.autoregressive_generate(
      jnp.pad(keys, (0, fillers), mode="edge"),
      self._place(np.pad(inputs, ((0, fillers), (0, 0)), mode="edge")),
      model=self._model,
      params=params,
      config=sd.SpeculativeConfig(
        gamma=0,
        max_new_tokens=(width,) * total + (1,) * fillers,
        sampling=self._sampling,
        eos_id=EOS_ID,
      ),
    )
    return np.asarray(output.tokens)[:total]


def _after(
  prompts: Int[np.ndarray, "B T"], tokens: Int[np.ndarray, "B T"]
) -> Int[np.ndarray, "B T"]:
  """Moves tokens to the columns behind their prompts; what is too far is cut.

  Args:
    prompts: Padded with 0 on the right.
    tokens: What follows each of them, from column 0 on.
  """
  width = tokens.shape[1]
  column = np.arange(width) - np.sum(prompts > 0, axis=1, keepdims=True)
  moved = np.take_along_axis(tokens, np.maximum(column, 0), axis=1)
  return np.where(column >= 0, moved, 0)
