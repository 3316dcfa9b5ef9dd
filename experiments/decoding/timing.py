"""Times baseline and speculation side by side, and what both are made of.

Everything is measured in turns, within one process: a machine that gets
slower for a while slows all of it down alike. Times are wall time until the
results are there, over the tokens emitted; compilation is not in them.
"""

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import specdec_jax as sd
from experiments.decoding.batching import Batch, budgets, example_keys
from experiments.decoding.decode import check_finite
from experiments.decoding.pair import Pair
from specdec_jax.array_typing import Array, Float, Int
from specdec_jax.drafters import EarlyExitDrafter, ModelDrafter
from specdec_jax.sampling import argmax, make_sampler

_SAMPLE_SECONDS = 0.1
"""How long to call a part for a sample of its time."""

_SAMPLES = 4
"""How often a repeat samples the parts, at most."""


class Costs(NamedTuple):
  """Seconds of each part, for one batch.

  Attributes:
    target_prefill: The target reads the inputs.
    target_step: A target call with one token per row.
    target_verify: A target call with gamma + 1 tokens per row; a mean where
      rounds have different numbers of guesses.
    draft_prefill: The draft reads the inputs.
    draft_step: A draft call with one token per row; 0 for a drafter that is
      no model.
    draft_first: What a round's first draft call adds to the target's
      verification before it; it has two tokens per row, or one if the draft
      keeps no cache. The verification has filled the processor's caches with
      the target's weights, so it takes longer than such calls among
      themselves. Of a drafter that is no model all of a round's drafting; of an
      early exit what a round takes longer than the verification alone.
  """

  target_prefill: float
  target_step: float
  target_verify: float
  draft_prefill: float
  draft_step: float
  draft_first: float


class Work(NamedTuple):
  """How often a batch needs each part.

  A batch runs until its last row ends, so these are maxima over its rows.

  Attributes:
    baseline_calls: Target calls of the baseline.
    rounds: Target calls of the speculative run.
  """

  baseline_calls: int
  rounds: int


@dataclasses.dataclass(frozen=True)
class Timing:
  """All that was measured.

  Texts are in the order of the batches; R repeats of N batches.

  Attributes:
    gamma: Draft tokens per round.
    indices: The texts of each batch.
    baseline_lengths: Tokens of each text, decoded by the baseline.
    stats: The counters of each text, decoded speculatively.
    same_tokens: Whether both gave the same tokens for all texts.
    baseline_seconds: float64[R, N].
    speculative_seconds: float64[R, N].
    costs: Of each repeat and batch.
    work: Per batch.
  """

  gamma: int
  indices: list[tuple[int, ...]]
  baseline_lengths: list[int]
  stats: sd.SpeculationStats
  same_tokens: bool
  baseline_seconds: Float[np.ndarray, "R N"]
  speculative_seconds: Float[np.ndarray, "R N"]
  costs: list[list[Costs]]
  work: list[Work]

  @property
  def examples(self) -> int:
    """How many texts were decoded in each repeat."""
    return len(self.baseline_lengths)

  @property
  def baseline_tokens(self) -> int:
    """Tokens emitted in one repeat."""
    return sum(self.baseline_lengths)

  @property
  def speculative_tokens(self) -> int:
    """Likewise; the same number if decoding is greedy."""
    return int(np.sum(self.stats.emitted))

  @property
  def baseline_ms_per_token(self) -> list[float]:
    """Per repeat."""
    return _ms_per_token(self.baseline_seconds, self.baseline_tokens)

  @property
  def speculative_ms_per_token(self) -> list[float]:
    """Per repeat."""
    return _ms_per_token(self.speculative_seconds, self.speculative_tokens)

  @property
  def speedup(self) -> list[float]:
    """Per repeat, so that a slow minute falls on both sides of the ratio."""
    return [
      baseline / speculative
      for baseline, speculative in zip(
        self.baseline_ms_per_token,
        self.speculative_ms_per_token,
        strict=True,
      )
    ]

  @property
  def typical_costs(self) -> list[Costs]:
    """Per batch, medians over the repeats."""
    return [
      Costs(*map(statistics.median, zip(*each, strict=True)))
      for each in zip(*self.costs, strict=True)
    ]

  @property
  def parts(self) -> Costs:
    """Means of `typical_costs` over the batches."""
    return Costs(*map(statistics.fmean, zip(*self.typical_costs, strict=True)))

  @property
  def cost_ratio(self) -> float:
    """The paper's c: a draft call over a target call, with one token each."""
    return self.parts.draft_step / self.parts.target_step

  @property
  def verify_ratio(self) -> float:
    """A target call with gamma + 1 tokens over one with one token."""
    return self.parts.target_verify / self.parts.target_step

  @property
  def scored(self) -> Float[np.ndarray, "G1"]:
    """The share of target calls that read so many guesses."""
    return _shares(self.stats)

  @property
  def guesses(self) -> float:
    """Guesses per round, gamma unless the drafter chooses."""
    return mean_guesses(self.scored)

  @property
  def predicted_speedup(self) -> float:
    """What `typical_costs` say that the speedup should be."""
    return self._predicted(self.typical_costs)

  @property
  def predicted_speedups(self) -> list[float]:
    """Likewise for each repeat, from its own costs."""
    return list(map(self._predicted, self.costs))

  def _predicted(self, costs: list[Costs]) -> float:
    # Samples of both are not equally long.
    tokens = self.speculative_tokens / self.baseline_tokens
    return predicted_speedup(costs, self.work, self.guesses) * tokens


def _ms_per_token(seconds, tokens: int) -> list[float]:
  return [1e3 * float(np.sum(each)) / tokens for each in seconds]


def baseline_cost(costs: list[Costs], work: list[Work]) -> float:
  """Seconds that the parts say the baseline takes, over all batches."""
  return sum(
    cost.target_prefill + each.baseline_calls * cost.target_step
    for cost, each in zip(costs, work, strict=True)
  )


def speculative_cost(
  costs: list[Costs], work: list[Work], guesses: float
) -> float:
  """Seconds that the parts say speculative decoding takes."""
  return sum(
    cost.target_prefill
    + cost.draft_prefill
    + each.rounds
    * round_cost(guesses, cost.draft_step, cost.target_verify, cost.draft_first)
    for cost, each in zip(costs, work, strict=True)
  )


def round_cost(
  guesses: float, draft_step: float, target_verify: float, draft_first: float
) -> float:
  """As `analysis.round_cost`, for a mean number of guesses."""
  if not guesses:
    return target_verify
  return target_verify + drafting_cost(guesses, draft_step, draft_first)


def drafting_cost(
  guesses: float, draft_step: float, draft_first: float
) -> float:
  """What of a round is drafting, where there is any."""
  return draft_first + (guesses - 1) * draft_step


def mean_guesses(scored: Sequence[float] | Float[np.ndarray, "G1"]) -> float:
  """Guesses per round, from the shares of rounds with so many."""
  return float(np.dot(scored, np.arange(len(scored))))


def predicted_speedup(
  costs: list[Costs], work: list[Work], guesses: float
) -> float:
  """What the parts' times say that the speedup should be, for equal outputs.

  Equation 1 and Theorem 3.8 of the paper take acceptance to be i.i.d. and a
  verification to cost as much as a target step; here the rounds are counted
  and the parts are timed:

      baseline    = sum of target_prefill + baseline_calls * target_step
      speculative = sum of target_prefill + draft_prefill
                           + rounds * (target_verify + drafting)
      drafting    = draft_first + (guesses - 1) * draft_step  (0 of none)

  over all batches. The time of sampling, verification and bookkeeping is in
  neither sum.

  Args:
    costs: Per batch.
    work: Per batch.
    guesses: Draft tokens per round, gamma unless the drafter chooses.
  """
  return float(
    baseline_cost(costs, work) / speculative_cost(costs, work, guesses)
  )


def time_pair(
  pair: Pair,
  batches: list[Batch],
  *,
  config: sd.SpeculativeConfig,
  seed: int,
  repeats: int,
  on_progress: Callable[[], None] = lambda: None,
) -> Timing:
  """Measures.

  Args:
    pair: Who decodes.
    batches: What to decode, in each repeat.
    config: How.
    seed: As in `example_keys`.
    repeats: How often to measure; everything ran once before.
    on_progress: Called repeats + 1 times.

  Raises:
    ValueError: If the target's logits are not finite.
  """
  jobs = []
  for batch in batches:
    arguments = (
      example_keys(seed, batch),
      batch.inputs,
      dataclasses.replace(config, max_new_tokens=budgets(batch, config.width)),
    )
    jobs.append(
      (
        functools.partial(pair.baseline, *arguments),
        functools.partial(pair.speculative, *arguments),
      )
    )
  outputs, work = ([], []), []
  for batch, job in zip(batches, jobs, strict=True):
    both = jax.device_get([each() for each in job])
    # A batch runs until its last row ends, be it a dummy.
    work.append(Work(*(int(np.max(o.stats.target_calls)) for o in both)))
    for kept, output in zip(outputs, both, strict=True):
      texts = jax.tree.map(lambda x, size=batch.size: x[:size], output)
      for index, log_prob in zip(batch.indices, texts.log_probs, strict=True):
        check_finite(float(log_prob), f"Text {index}")
      kept.append(texts)
  baseline, speculative = (
    jax.tree.map(lambda *rows: np.concatenate(rows), *each) for each in outputs
  )
  # Batches of one shape share their parts.
  parts = {}
  for batch in batches:
    if batch.inputs.shape not in parts:
      parts[batch.inputs.shape] = parts_sampler(
        pair, batch.inputs, config, _shares(speculative.stats)
      )
  sampled = _sampled(batches)
  on_progress()

  seconds = np.zeros((2, repeats, len(batches)))
  costs = []
  for repeat in range(repeats):
    samples = {shape: [] for shape in parts}
    for i, (batch, job) in enumerate(zip(batches, jobs, strict=True)):
      # Whoever goes first finds the other's data in the processor's caches.
      for which in (0, 1) if repeat % 2 == 0 else (1, 0):
        seconds[which, repeat, i] = _seconds(job[which])
      if i in sampled:
        shape = batch.inputs.shape
        samples[shape].append(parts[shape]())
    means = {shape: _mean(each) for shape, each in samples.items()}
    costs.append([means[batch.inputs.shape] for batch in batches])
    on_progress()

  return Timing(
    gamma=config.gamma,
    indices=[batch.indices for batch in batches],
    baseline_lengths=baseline.lengths.tolist(),
    stats=speculative.stats,
    same_tokens=bool(np.all(baseline.tokens == speculative.tokens)),
    baseline_seconds=seconds[0],
    speculative_seconds=seconds[1],
    costs=costs,
    work=work,
  )


def _mean(samples: list[Costs]) -> Costs:
  mean = Costs(*map(statistics.fmean, zip(*samples, strict=True)))
  # A difference, of which a cheap draft leaves little more than noise.
  return mean._replace(draft_first=max(mean.draft_first, 0.0))


def _sampled(batches: list[Batch]) -> set[int]:
  """Returns after which batches to sample the parts: a few of each shape."""
  of_shape: dict[tuple[int, ...], list[int]] = {}
  for i, batch in enumerate(batches):
    of_shape.setdefault(batch.inputs.shape, []).append(i)
  return {
    places[k * len(places) // _SAMPLES]
    for places in of_shape.values()
    for k in range(_SAMPLES)
  }


def _shares(stats: sd.SpeculationStats) -> Float[np.ndarray, "G1"]:
  rounds = np.sum(stats.scored_histogram, axis=0)
  return rounds / rounds.sum()


def parts_sampler(
  pair: Pair,
  inputs: Int[Array, "B S"],
  config: sd.SpeculativeConfig,
  scored: Float[np.ndarray, "G1"] | None = None,
) -> Callable[[], Costs]:
  """Returns what samples the parts' times, for inputs of one shape.

  A sample's `draft_first`, a difference, may be below 0.

  Args:
    pair: The models.
    inputs: int32[B, S], any of that shape.
    config: Its gamma and its widest budget shape the parts.
    scored: The share of target calls that read so many guesses; None if all
      read gamma.
  """
  length = config.width + config.gamma + 1
  target = (pair.target, pair.target_params)
  target_start = _prefill(*target, inputs, length)
  draft_prefill = functools.partial(
    _draft_prefill,
    pair.drafter,
    pair.drafter_params,
    inputs,
    length,
    target_start,
  )
  draft_start = target_start._replace(cache=draft_prefill())

  def often(function):
    return _timer(lambda count: [function() for _ in range(count)])

  def extend(model, params, start, num_tokens):
    return _timer(
      functools.partial(
        _extend_often, model, params, start, num_tokens, config.width
      )
    )

  timers = {
    "target_prefill": often(
      functools.partial(_prefill, *target, inputs, length)
    ),
    "target_step": extend(*target, target_start, 1),
    "draft_prefill": often(draft_prefill),
  }
  if isinstance(pair.drafter, ModelDrafter):
    draft = (pair.draft, pair.draft_params, draft_start)
    timers["draft_step"] = extend(*draft, 1)
    timers["draft_first"] = _timer(
      functools.partial(
        _verify_and_draft_often,
        *target,
        target_start,
        *draft,
        config.gamma + 1,
        config.width,
      )
    )
  else:
    timers["draft_step"] = lambda: 0.0
    guess_often = functools.partial(
      _verify_and_guess_often,
      *target,
      target_start,
      pair.drafter,
      pair.drafter_params,
      draft_start.cache,
    )
    if isinstance(pair.drafter, EarlyExitDrafter):
      guess_often = functools.partial(
        _guess_and_go_on_often, *target, target_start, pair.drafter
      )
    timers["draft_first"] = _timer(
      functools.partial(
        guess_often,
        make_sampler(config.sampling, len(inputs)),
        config.gamma,
        config.width,
      )
    )

  found = np.eye(config.gamma + 1)[-1] if scored is None else scored
  shares = {size: found[size] for size in np.flatnonzero(found).tolist()}
  verify_timers = {
    size: extend(*target, target_start, size + 1)
    for size in {*shares, config.gamma}
  }

  def sample():
    seconds = {name: timer() for name, timer in timers.items()}
    verify = {size: timer() for size, timer in verify_timers.items()}
    # The first draft call was timed behind one of these.
    seconds["draft_first"] -= verify[config.gamma]
    seconds["target_verify"] = sum(
      share * verify[size] for size, share in shares.items()
    )
    return Costs(**seconds)

  return sample


@functools.partial(jax.jit, static_argnums=(0, 3))
def _prefill(model, params, inputs, length):
  return model.prefill(params, inputs, length)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _draft_prefill(drafter, params, inputs, length, target):
  return drafter.prefill(params, inputs, length, target)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _extend_often(model, params, start, num_tokens, width, num_calls):
  """Calls `extend` as decoding does: each call needs the one before it.

  Its tokens are the last one's argmax and its position advances, so that the
  compiler can neither move a call out of the loop nor drop it.
  """

  def body(i, carry):
    tokens, cache = carry
    position = start.position + i % width
    logits, cache = model.extend(params, tokens, position, cache)
    return argmax(logits), cache

  tokens = jnp.repeat(start.token[:, None], num_tokens, axis=1)
  return jax.lax.fori_loop(0, num_calls, body, (tokens, start.cache))


@functools.partial(jax.jit, static_argnums=(0, 3, 6))
def _verify_and_draft_often(
  target,
  target_params,
  target_start,
  draft,
  draft_params,
  draft_start,
  num_tokens,
  width,
  num_calls,
):
  """Calls the target, then the draft as a round begins, and so on in turns."""
  fed = 2 if jax.tree.leaves(draft_start.cache) else 1

  def body(i, carry):
    tokens, target_cache, draft_cache = carry
    logits, target_cache = target.extend(
      target_params, tokens, target_start.position + i % width, target_cache
    )
    # The draft may have less padding in its vocabulary.
    tokens = jnp.minimum(argmax(logits)[:, -fed:], draft.vocab_size - 1)
    logits, draft_cache = draft.extend(
      draft_params, tokens, draft_start.position + i % width, draft_cache
    )
    tokens = jnp.repeat(argmax(logits)[:, -1:], num_tokens, axis=1)
    return tokens, target_cache, draft_cache

  tokens = jnp.repeat(target_start.token[:, None], num_tokens, axis=1)
  start = (tokens, target_start.cache, draft_start.cache)
  return jax.lax.fori_loop(0, num_calls, body, start)


@functools.partial(jax.jit, static_argnums=(0, 3, 7, 8))
def _verify_and_guess_often(
  target,
  target_params,
  target_start,
  drafter,
  drafter_params,
  drafter_cache,
  sampler,
  gamma,
  width,
  num_calls,
):
  """Calls the target, then a drafter of any kind, and so on in turns."""
  batch = target_start.token.shape[0]
  keys = jax.random.split(jax.random.key(0), batch)
  text = jnp.zeros((batch, width + gamma + 1), jnp.int32)

  def body(i, carry):
    tokens, text, target_cache, drafter_cache = carry
    position = target_start.position + i % width
    logits, target_cache = target.extend(
      target_params, tokens, position, target_cache
    )
    last = argmax(logits)[:, -1:]
    text = jax.lax.dynamic_update_slice_in_dim(text, last, i % width, axis=1)
    context = sd.Context(
      text, jnp.full((batch,), i % width + 1), target_start.position
    )
    draft, drafter_cache = drafter.draft(
      drafter_params, context, drafter_cache, keys, sampler, gamma
    )
    tokens = jnp.concatenate([last, draft.tokens], axis=1)
    return tokens, text, target_cache, drafter_cache

  tokens = jnp.repeat(target_start.token[:, None], gamma + 1, axis=1)
  start = (tokens, text, target_start.cache, drafter_cache)
  return jax.lax.fori_loop(0, num_calls, body, start)


@functools.partial(jax.jit, static_argnums=(0, 3, 5, 6))
def _guess_and_go_on_often(
  target, params, start, drafter, sampler, gamma, width, num_calls
):
  """Lets the target guess at an early exit and go on from there, in turns."""
  batch = start.token.shape[0]
  keys = jax.random.split(jax.random.key(0), batch)
  text = jnp.zeros((batch, width + gamma + 1), jnp.int32)

  def body(i, carry):
    text, cache = carry
    context = sd.Context(
      text, jnp.full((batch,), i % width + 1), start.position
    )
    draft, cache = drafter.draft(params, context, cache, keys, sampler, gamma)
    logits, cache = target.extend_rest(
      params,
      draft.states,
      start.position + i % width,
      cache,
      drafter.shared_layers,
    )
    last = argmax(logits)[:, -1:]
    text = jax.lax.dynamic_update_slice_in_dim(
      text, last, (i + 1) % width, axis=1
    )
    return text, cache

  return jax.lax.fori_loop(0, num_calls, body, (text, start.cache))


def _seconds(function: Callable) -> float:
  begin = time.perf_counter()
  jax.block_until_ready(function())
  return time.perf_counter() - begin


def _timer(function: Callable[[int], Any]) -> Callable[[], float]:
  """Returns what samples the seconds of a call.

  Args:
    function: Does a given number of calls.
  """
  _seconds(lambda: function(1))
  once = _seconds(lambda: function(2)) / 2
  count = int(np.clip(_SAMPLE_SECONDS / once, 2, 1000))

  def sample():
    # What ran before has filled the processor's caches with its own data.
    jax.block_until_ready(function(1))
    return _seconds(lambda: function(count)) / count

  return sample
