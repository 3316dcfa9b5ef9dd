"""From batches to records: a JSON object per text."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np

import specdec_jax as sd
from experiments.decoding.batching import Batch, budgets, example_keys
from experiments.decoding.pair import Pair
from experiments.decoding.task import Example

COUNTERS = (
  "target_calls",
  "drafted",
  "examined",
  "accepted",
  "corrected",
  "bonus",
  "emitted",
)
HISTOGRAMS = ("accepted_histogram", "scored_histogram")


def decode_batch(
  pair: Pair,
  batch: Batch,
  examples: list[Example],
  *,
  config: sd.SpeculativeConfig,
  seed: int,
  compare: bool,
) -> list[dict[str, Any]]:
  """Decodes a batch.

  Args:
    pair: Who decodes.
    batch: What.
    examples: All texts; the batch says which are its own.
    config: How.
    seed: As in `example_keys`.
    compare: Whether to decode with the target alone as well.

  Returns:
    A record per text; the README of this folder lists its fields.

  Raises:
    ValueError: If the target's logits were not finite.
  """
  config = dataclasses.replace(
    config, max_new_tokens=budgets(batch, config.width)
  )
  keys = example_keys(seed, batch)
  output = jax.device_get(pair.speculative(keys, batch.inputs, config))
  equal = [None] * batch.size
  if compare:
    baseline = jax.device_get(pair.baseline(keys, batch.inputs, config))
    equal = np.all(output.tokens == baseline.tokens, axis=1).tolist()
  records = []
  for row, index in enumerate(batch.indices):
    log_prob = float(output.log_probs[row])
    check_finite(log_prob, f"Text {index} (line {examples[index].line})")
    ids = output.tokens[row, : output.lengths[row]].tolist()
    # The row alone, as a batch of one.
    stats = jax.tree.map(lambda x, row=row: x[row : row + 1], output.stats)
    records.append(
      {
        "index": index,
        "line": examples[index].line,
        "input": examples[index].text,
        "output": pair.vocabulary.decode(ids),
        "ids": ids,
        "log_prob": log_prob,
        "finished": ids[-1] == config.eos_id,
        "equal_to_baseline": equal[row],
        "statistics": {
          **{name: int(getattr(stats, name)[0]) for name in COUNTERS},
          **{name: getattr(stats, name)[0].tolist() for name in HISTOGRAMS},
          "acceptance_rate": sd.acceptance_rate(stats),
          "block_efficiency": sd.block_efficiency(stats),
        },
      }
    )
  return records


def check_finite(log_prob: float, text: str) -> None:
  """Checks that the target's logits were finite.

  Args:
    log_prob: The target's, of an output.
    text: What to call the text in the error.

  Raises:
    ValueError: If they were not.
  """
  if not math.isfinite(log_prob):
    raise ValueError(
      f"{text} has log_prob {log_prob}: the target's logits are not finite."
      " Check its weights; large models need dtype='float32' or 'bfloat16'."
    )
