"""What a run found, in one JSON object."""

import statistics
from typing import Any

import jax
import numpy as np

import specdec_jax as sd
from experiments import environment
from experiments.decoding.decode import COUNTERS, HISTOGRAMS
from experiments.decoding.pair import Pair
from experiments.decoding.task import Task
from experiments.decoding.timing import Timing
from experiments.spread import spread
from specdec_jax.array_typing import Params


def make_report(
  records: list[dict[str, Any]],
  timing: Timing | None,
  *,
  pair: Pair,
  task: Task,
  config: sd.SpeculativeConfig,
  batch_size: int,
  seed: int,
) -> dict[str, Any]:
  """Sums up records and times; what is undefined or not measured is None.

  Args:
    records: As `decode_batch` makes them.
    timing: As `time_pair` makes it.
    pair: Who decoded.
    task: What.
    config: How.
    batch_size: Texts decoded side by side.
    seed: As in `example_keys`.
  """
  stats = _stats(records)
  equal = [each["equal_to_baseline"] for each in records]
  sampling = config.sampling
  return {
    "pair": pair.config.name,
    "task": task.name,
    "target_parameters": count_parameters(pair.target_params),
    "draft_parameters": count_parameters(pair.draft_params),
    "batch_size": batch_size,
    "gamma": config.gamma,
    "temperature": sampling.temperature,
    "top_k": sampling.top_k,
    "top_p": sampling.top_p,
    "lenience": 1.0 if config.is_exact else config.lenience,
    "max_new_tokens": config.max_new_tokens,
    "seed": seed,
    "counts": {
      "examples": len(records),
      "unfinished": sum(not each["finished"] for each in records),
      "tokens": int(np.sum(stats.emitted)),
      **{
        name: int(np.sum(getattr(stats, name)))
        for name in COUNTERS
        if name != "emitted"
      },
    },
    "acceptance_rate": sd.acceptance_rate(stats),
    "block_efficiency": sd.block_efficiency(stats),
    "accepted_histogram": np.sum(stats.accepted_histogram, axis=0).tolist(),
    "equal_to_baseline": None if None in equal else all(equal),
    **_timing_fields(timing),
    "environment": environment.describe(pair.config.dtype),
    "command": environment.command(),
  }


def _stats(records) -> sd.SpeculationStats:
  counters: dict[str, Any] = {
    name: np.array([each["statistics"][name] for each in records])
    for name in (*COUNTERS, *HISTOGRAMS)
  }
  return sd.SpeculationStats(**counters)


def _timing_fields(timing: Timing | None) -> dict[str, Any]:
  if timing is None:
    return dict.fromkeys(
      (
        "baseline_ms_per_token",
        "speculative_ms_per_token",
        "speedup",
        "speedup_range",
        "cost_ratio",
        "verify_ratio",
        "predicted_speedup",
        "timing",
      )
    )
  return {
    "baseline_ms_per_token": spread(timing.baseline_ms_per_token),
    "speculative_ms_per_token": spread(timing.speculative_ms_per_token),
    "speedup": statistics.median(timing.speedup),
    "speedup_range": spread(timing.speedup),
    "cost_ratio": timing.cost_ratio,
    "verify_ratio": timing.verify_ratio,
    "predicted_speedup": timing.predicted_speedup,
    "timing": {
      "repeats": len(timing.baseline_seconds),
      "examples": timing.examples,
      "tokens": timing.speculative_tokens,
      "baseline_seconds": spread(timing.baseline_seconds.sum(axis=1)),
      "speculative_seconds": spread(timing.speculative_seconds.sum(axis=1)),
      "baseline_calls": sum(each.baseline_calls for each in timing.work),
      "rounds": sum(each.rounds for each in timing.work),
      **{
        f"{name}_ms": 1e3 * part
        for name, part in timing.parts._asdict().items()
      },
    },
  }


def count_parameters(params: Params) -> int:
  """Returns how many numbers a model's parameters are; 0 for no model."""
  return sum(each.size for each in jax.tree.leaves(params))
