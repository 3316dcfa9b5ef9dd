"""One service of a pair's, at one rate, measured by the real clock."""

import dataclasses
from typing import Any

import jax
import numpy as np

import specdec_jax as sd
from experiments.decoding.pair import Pair
from experiments.decoding.speed import acceptance
from experiments.records import checksum
from experiments.serving.arrivals import poisson
from experiments.serving.engine import TextEngine
from experiments.serving.open_loop import WallClock, serve
from experiments.serving.summary import summarise


@dataclasses.dataclass(frozen=True)
class LoadTest:
  """What all services of a comparison have in common.

  Attributes:
    pair: Who decodes.
    encoded: Token ids of the texts that requests are for.
    input_length: Most tokens of a text.
    slots: How many texts decode side by side.
    requests: How many requests count.
    warm_up: How many come before these.
    max_rounds: As in `open_loop.serve`.
    seed: Of arrivals and decoding.
  """

  pair: Pair
  encoded: list[list[int]]
  input_length: int
  slots: int
  requests: int
  warm_up: int
  max_rounds: int
  seed: int

  def measure(
    self, config: sd.SpeculativeConfig, rate: float, repeat: int
  ) -> dict[str, Any]:
    """Serves, and returns what `summarise` says, what was counted and decoded.

    Args:
      config: How to decode.
      rate: Requests per second; infinite if all are there from the start.
      repeat: Each has arrivals and texts of its own, whatever decodes them.

    Raises:
      ValueError: If the target's logits are not finite.
    """
    engine = TextEngine(
      self.pair,
      self.encoded,
      slots=self.slots,
      input_length=self.input_length,
      config=config,
      seed=self.seed,
    )
    engine.warm_up()
    count = self.warm_up + self.requests
    service = serve(
      poisson(rate, len(self.encoded), (self.seed, repeat)),
      engine,
      WallClock(),
      count=count,
      max_rounds=self.max_rounds,
    )
    outputs = [engine.outputs[i] for i in range(self.warm_up, count)]
    stats = jax.tree.map(
      lambda *texts: np.concatenate(texts), *(each.stats for each in outputs)
    )
    return {
      **summarise(service, first=self.warm_up, count=count, slots=self.slots),
      **acceptance(stats),
      "outputs": checksum([each.tokens.tolist() for each in outputs]),
      "slot_bytes": engine.batch.nbytes,
    }
