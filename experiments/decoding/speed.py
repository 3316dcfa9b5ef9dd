"""What a timing says of a pair's speed: one line of JSON, a cell of a grid.

Its `error_terms` take apart how far Theorem 3.8 is from what was measured.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import specdec_jax as sd
from experiments import environment
from experiments.decoding.pair import Pair
from experiments.decoding.report import count_parameters
from experiments.decoding.timing import (
  Timing,
  baseline_cost,
  predicted_speedup,
  round_cost,
  speculative_cost,
)
from experiments.ratio import quotient_interval, ratio_interval
from experiments.spread import spread
from specdec_jax.analysis import expected_rounds, wall_time_improvement
from specdec_jax.array_typing import Bool


def make_cell(
  timing: Timing,
  *,
  pair: Pair,
  draft: str,
  task: str,
  kinds: Sequence[str],
  config: sd.SpeculativeConfig,
  batch_size: int,
  seed: int,
  length_bounds: Sequence[int] = (),
) -> dict[str, Any]:
  """Returns what a timing says, for JSON; the README lists the fields.

  Args:
    timing: From `time_pair`.
    pair: Who decoded.
    draft: What to call the draft.
    task: What to call the texts.
    kinds: The kind of origin of every text of the task; "" if not known.
    config: How they were decoded; one temperature and one budget for all.
    batch_size: Texts decoded side by side.
    seed: As in `example_keys`.
    length_bounds: Most tokens of each group of output lengths, ascending; one
      more group takes what is longer.
  """
  sampling = config.sampling
  timed = batch_size == 1
  return {
    "pair": pair.config.name,
    "task": task,
    "draft": draft,
    "temperature": sampling.temperature,
    "top_k": sampling.top_k,
    "top_p": sampling.top_p,
    "gamma": config.gamma,
    "batch_size": batch_size,
    "lenience": config.lenience,
    "verification": config.verification,
    "synthetic": False,
    "max_new_tokens": config.max_new_tokens,
    "seed": seed,
    "target_parameters": count_parameters(pair.target_params),
    "draft_parameters": count_parameters(pair.draft_params),
    "examples": timing.examples,
    "tokens": timing.speculative_tokens,
    "baseline_tokens": timing.baseline_tokens,
    "repeats": len(timing.costs),
    "equal_to_baseline": timing.same_tokens
    if sampling.greedy and config.is_exact and pair.config.dtype == "float32"
    else None,
    **acceptance(timing.stats),
    "milliseconds_per_token": {
      "baseline": spread(timing.baseline_ms_per_token),
      "speculative": spread(timing.speculative_ms_per_token),
    },
    "speedup": spread(timing.speedup),
    "speedup_over_texts": _speedup_interval(timing),
    "parts_ms": {
      name: 1e3 * each for name, each in timing.parts._asdict().items()
    },
    "cost_ratio": timing.cost_ratio,
    "verification_ratio": timing.verify_ratio,
    "scored": timing.scored.tolist(),
    "predicted": spread(timing.predicted_speedups),
    "theorem_3_8": theorem_3_8(timing),
    "error_terms": error_terms(timing),
    "by_origin": {
      kind: _group(timing, chosen, chosen, timed)
      for kind, chosen in _by_kind(timing, kinds).items()
    },
    "by_length": {
      f"{low}-{high}": _group(timing, *chosen, timed)
      for (low, high), chosen in _by_length(
        timing, length_bounds, config.width
      ).items()
    },
    "environment": environment.describe(pair.config.dtype),
    "command": environment.command(),
  }


def theorem_3_8(timing: Timing) -> float:
  """Theorem 3.8 of what was counted (alpha-hat) and timed (c)."""
  return float(
    wall_time_improvement(_alpha(timing), timing.gamma, timing.cost_ratio)
  )


def error_terms(timing: Timing) -> dict[str, float]:
  """Takes the theorem's error apart, cause by cause.

  Theorem 3.8 gives way to the measured speed-up one assumption after the
  other; each term is what one step multiplies the speed-up by:

      texts_end           texts have ends: the last round may yield more than
                          there is room for (`expected_rounds`)
      acceptance_not_iid  rounds are counted, not expected from alpha-hat, and
                          so are guesses, where the drafter may make fewer
      verification        a target call of gamma + 1 tokens, or of as many as
                          there were guesses to read, costs more than one of
                          one token
      first_draft_call    a round's first draft call costs more than others
      waiting_rows        a batch runs until its last row ends (and batches of
                          different widths cost differently); 1 for a batch
                          size of 1 and one width
      draft_prefill       the draft reads the inputs
      target_prefill      the target reads them too, with or without
                          speculation
      bookkeeping         what no part accounts for: drawing, verification's
                          rule, commit, counting, and the error of the parts'
                          times

  Their product is the median measured speed-up over `theorem_3_8`. All but
  the last lead to the assumption-free prediction from `typical_costs`.

  Args:
    timing: From `time_pair`, with gamma positive.
  """
  alpha, gamma, guesses = _alpha(timing), timing.gamma, timing.guesses
  parts, costs, work = timing.parts, timing.typical_costs, timing.work
  draft = parts.draft_step / parts.target_step
  verify = parts.target_verify / parts.target_step
  first = parts.draft_first / parts.target_step
  emitted = timing.stats.emitted
  tokens = timing.speculative_tokens
  of_finite_texts = tokens / np.sum(expected_rounds(alpha, gamma, emitted))
  counted = tokens / np.sum(timing.stats.target_calls)
  per_token = tokens / timing.baseline_tokens

  def without(*prefills: str) -> float:
    less = [each._replace(**dict.fromkeys(prefills, 0.0)) for each in costs]
    return predicted_speedup(less, work, guesses) * per_token

  factors = {
    "texts_end": of_finite_texts / round_cost(gamma, draft, 1.0, draft),
    "acceptance_not_iid": counted / round_cost(guesses, draft, 1.0, draft),
    "verification": counted / round_cost(guesses, draft, verify, draft),
    "first_draft_call": counted / round_cost(guesses, draft, verify, first),
    "waiting_rows": without("target_prefill", "draft_prefill"),
    "draft_prefill": without("target_prefill"),
    "target_prefill": timing.predicted_speedup,
    "bookkeeping": float(np.median(timing.speedup)),
  }
  terms, before = {}, theorem_3_8(timing)
  for name, speedup in factors.items():
    terms[name] = float(speedup / before)
    before = speedup
  return terms


def _alpha(timing: Timing) -> float:
  # A drafter that never had a guess may have been asked.
  return sd.acceptance_rate(timing.stats) or 0.0


def acceptance(stats: sd.SpeculationStats) -> dict[str, Any]:
  """Returns what the counters of texts say of acceptance, a row per text."""
  kept = np.sum(stats.accepted_histogram, axis=0)
  return {
    "alpha_hat": ratio_interval(stats.accepted, stats.examined),
    "block_efficiency": ratio_interval(
      stats.emitted, stats.target_calls, most=len(kept)
    ),
    "kept": kept.tolist(),
  }


def _speedup_interval(timing: Timing) -> dict[str, float | None]:
  """The speed-up's interval over texts, or over batches of them."""
  ends = np.cumsum([0, *map(len, timing.indices)])

  def of_batches(per_text):
    return np.add.reduceat(per_text, ends[:-1])

  return quotient_interval(
    (
      np.median(timing.baseline_seconds, axis=0),
      of_batches(timing.stats.emitted),
    ),
    (
      np.median(timing.speculative_seconds, axis=0),
      of_batches(timing.baseline_lengths),
    ),
  )


def _by_kind(timing: Timing, kinds: Sequence[str]) -> dict[str, np.ndarray]:
  """Returns which texts are of each kind; nothing if no kind is known."""
  of_texts = np.array([kinds[i] for batch in timing.indices for i in batch])
  return {str(kind): of_texts == kind for kind in np.unique(of_texts) if kind}


def _by_length(
  timing: Timing, bounds: Sequence[int], longest: int
) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
  """Returns which outputs are in each group, of both ways of decoding.

  Samples of a text may be of different lengths, and so in two groups.
  """
  groups, low = {}, 1
  for high in (*(each for each in bounds if each < longest), longest):
    chosen = tuple(
      (low <= lengths) & (lengths <= high)
      for lengths in (
        np.asarray(timing.baseline_lengths),
        timing.stats.emitted,
      )
    )
    if any(map(np.any, chosen)):
      groups[low, high] = chosen
    low = high + 1
  return groups


def _group(
  timing: Timing,
  baseline: Bool[np.ndarray, "E"],
  speculative: Bool[np.ndarray, "E"],
  timed: bool,
) -> dict[str, Any]:
  """Returns what can be said of some of the texts.

  Args:
    timing: Of all.
    baseline: bool[E], which outputs of the baseline.
    speculative: bool[E], which of the others.
    timed: Whether each text is a batch of its own, and so has times.
  """
  stats = jax.tree.map(lambda x: x[speculative], timing.stats)
  lengths = np.asarray(timing.baseline_lengths)[baseline]
  tokens, baseline_tokens = int(np.sum(stats.emitted)), int(np.sum(lengths))
  group = {
    "examples": int(np.sum(speculative)),
    "tokens": tokens,
    "baseline_examples": len(lengths),
    "baseline_tokens": baseline_tokens,
    **acceptance(stats),
    "milliseconds_per_token": None,
    "speedup": None,
    "predicted": None,
  }
  if not timed or not tokens or not baseline_tokens:
    return group
  times = {
    name: 1e3 * seconds[:, chosen].sum(axis=1) / count
    for name, seconds, chosen, count in (
      ("baseline", timing.baseline_seconds, baseline, baseline_tokens),
      ("speculative", timing.speculative_seconds, speculative, tokens),
    )
  }

  def of(values, chosen):
    return [each for each, is_in in zip(values, chosen, strict=True) if is_in]

  costs, work = timing.typical_costs, timing.work
  predicted = (
    baseline_cost(of(costs, baseline), of(work, baseline)) / baseline_tokens
  ) / (
    speculative_cost(
      of(costs, speculative), of(work, speculative), timing.guesses
    )
    / tokens
  )
  return group | {
    "milliseconds_per_token": {
      name: spread(each) for name, each in times.items()
    },
    "speedup": spread(times["baseline"] / times["speculative"]),
    "predicted": float(predicted),
  }
