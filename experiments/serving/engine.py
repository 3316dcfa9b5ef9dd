"""A pair that decodes a task's texts in slots."""

import jax
import numpy as np

import specdec_jax as sd
from experiments.decoding.decode import check_finite
from experiments.decoding.pair import Pair
from experiments.serving.arrivals import Request
from specdec_jax.array_typing import Int


class TextEngine:
  """An `open_loop.Engine`; also keeps what it has decoded.

  Attributes:
    batch: The slots.
    outputs: Of each request that has ended, by its number.
  """

  def __init__(
    self,
    pair: Pair,
    encoded: list[list[int]],
    *,
    slots: int,
    input_length: int,
    config: sd.SpeculativeConfig,
    seed: int,
  ):
    """Makes empty slots.

    Args:
      pair: Who decodes; the target alone if gamma is 0.
      encoded: Token ids of all texts.
      slots: How many texts decode side by side.
      input_length: Most tokens of a text.
      config: How.
      seed: A request's key follows from it and from the request's number.
    """
    self.batch = sd.ContinuousBatch(
      slots=slots,
      input_length=input_length,
      target=pair.target,
      target_params=pair.target_params,
      drafter=pair.drafter,
      draft_params=pair.drafter_params,
      config=config,
    )
    self.outputs: dict[int, sd.GenerateOutput] = {}
    self._encoded = encoded
    self._key = jax.random.key(seed)
    self._running: dict[int, Request] = {}

  @property
  def free(self) -> tuple[int, ...]:
    """The slots without a request."""
    return self.batch.free

  @property
  def lengths(self) -> Int[np.ndarray, "B"]:
    """Tokens that each slot's request has."""
    return self.batch.lengths

  def insert(self, slot: int, request: Request) -> None:
    """Puts a request into a free slot."""
    self._running[slot] = request
    key = jax.random.fold_in(self._key, request.number)
    inputs = np.array(self._encoded[request.text], np.int32)
    self.batch.insert(slot, key, inputs)

  def advance(self, max_rounds: int) -> list[int]:
    """Decodes; fetches the outputs of those that end.

    Raises:
      ValueError: If the target's logits are not finite.
    """
    ended = self.batch.advance(max_rounds)
    for slot in ended:
      request = self._running.pop(slot)
      output = self.batch.output(slot)
      check_finite(float(output.log_probs[0]), f"Text {request.text}")
      self.outputs[request.number] = output
    return ended

  def warm_up(self) -> None:
    """Decodes a text and forgets it: compiles, and fills caches."""
    self.insert(0, Request(0, 0, 0.0))
    while not self.advance(1):
      pass
    self.outputs.clear()
