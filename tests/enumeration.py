"""The exact law of what speculative decoding emits, without drawing anything.

The rule of a round is a deterministic function of uniform numbers, monotone
in each. So its outcomes have thresholds: the uniform at which a guess (in block
verification, a prefix) no longer passes, the one at which the next word begins.
Bisection over the bits of
a float32 finds each of them to the last bit, in the real function, and their
differences are probabilities. The rounds are then chained by the real
`commit`, over every prefix, every draft and every outcome.
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax import SamplingConfig
from specdec_jax.sampling import Sampler, sample
from specdec_jax.speculative import commit
from specdec_jax.verification import (
  Verification,
  apply_block_rule,
  apply_rule,
)
from tests.toy import TableModel

VOCAB = 5  # All cases have one shape: words that do not exist have no mass.
WIDTH = 5
_ROWS = 128
_ONE = np.float32(1.0).view(np.int32)
_BELOW_ONE = np.float32(1 - 2**-24)
_PLAIN = SamplingConfig()


def standardise(logits, sampling: SamplingConfig):
  """Temperature, top-k and top-p in float64, written apart from the real."""
  laws = np.zeros(np.shape(logits))
  for index in np.ndindex(laws.shape[:-1]):
    row = np.float64(logits[index])
    if sampling.temperature <= 1e-4:
      laws[index][np.argmax(row)] = 1.0
      continue
    law = np.exp((row - row.max()) / sampling.temperature)
    law /= law.sum()
    if sampling.top_k:
      edge = np.sort(law)[::-1][: sampling.top_k][-1]
      law = np.where(law >= edge, law, 0.0)
      law /= law.sum()
    if 0.0 < sampling.top_p < 1.0:
      mass = 0.0
      for edge in np.sort(law)[::-1]:
        mass += edge
        if mass >= sampling.top_p:
          break
      law = np.where(law >= edge, law, 0.0)
      law /= law.sum()
    laws[index] = law
  return laws


def _measure(holds: Callable, shape):
  """The share of the uniforms in [0, 1) for which a condition holds.

  Args:
    holds: Maps uniforms to bools; true up to a threshold and false beyond.
    shape: Of the uniforms.
  """

  def halve(_, ends):
    low, high = ends
    middle = low + (high - low) // 2
    uniform = jax.lax.bitcast_convert_type(middle, jnp.float32)
    is_true = holds(uniform) & (low < high)
    return jnp.where(is_true, middle + 1, low), jnp.where(is_true, high, middle)

  low = jnp.zeros(shape, jnp.int32)
  first_false, _ = jax.lax.fori_loop(
    0, 31, halve, (low, jnp.full(shape, _ONE, jnp.int32))
  )
  return jax.lax.bitcast_convert_type(first_false, jnp.float32)


@functools.partial(jax.jit, static_argnums=0)
def _thresholds(rule, tokens, draft_probs, target_probs, lengths):
  """How often each guess is kept, and a word up to each is next."""
  rows, gamma = tokens.shape
  vocab = target_probs.shape[-1]
  # A problem has one uniform that varies. For the first gamma it is the
  # guess's own and the others are 0, which keeps what can be kept. For the
  # rest it is the next word's, after n guesses: guess n's is as high as can
  # be, which rejects what can be rejected. In a block the others' are as high
  # as can be, and guess n - 1's is 0, which makes n guesses the longest prefix.
  is_block = rule is apply_block_rule
  num_next = (gamma + 1) * (vocab - 1)
  problems = gamma + num_next
  guess = jnp.arange(gamma)
  word = jnp.tile(jnp.arange(vocab - 1), gamma + 1)[:, None]
  fixed = jnp.eye(gamma + 1, gamma) * _BELOW_ONE
  if is_block:
    fixed = (1 - jnp.eye(gamma + 1, gamma, -1)) * _BELOW_ONE
  fixed = jnp.repeat(fixed, vocab - 1, axis=0)[:, None, :]

  def flat(x):
    x = jnp.broadcast_to(x, (problems, *x.shape))
    return x.reshape(problems * rows, *x.shape[2:])

  def holds(uniform):  # [problems, R]
    own = jnp.eye(gamma)[:, None, :] * uniform[:gamma, :, None]
    if is_block:
      own += (1 - jnp.eye(gamma))[:, None, :] * _BELOW_ONE
    accept_uniform = jnp.concatenate(
      [own, jnp.broadcast_to(fixed, (num_next, rows, gamma))]
    )
    result = rule(
      accept_uniform.reshape(-1, gamma),
      uniform.at[:gamma].set(0.0).reshape(-1),
      flat(tokens),
      flat(draft_probs),
      flat(target_probs),
      None if lengths is None else flat(lengths),
    )
    accepted, following = (x.reshape(problems, rows) for x in result)
    return jnp.concatenate(
      [accepted[:gamma] > guess[:, None], following[gamma:] <= word]
    )

  measures = _measure(holds, (problems, rows)).T
  at_most = measures[:, gamma:].reshape(rows, gamma + 1, vocab - 1)
  return measures[:, :gamma], at_most


def outcomes(rule, tokens, draft_probs, target_probs, lengths=None):
  """The joint law of (num_accepted, next_token), float64[R, G + 1, V].

  Args:
    rule: `apply_rule`, a wrong one, or `apply_block_rule`.
    tokens: int32[R, G].
    draft_probs: float32[R, G, V].
    target_probs: float32[R, G + 1, V].
    lengths: int32[R] or None.
  """
  rows = len(tokens)
  arrays = [tokens, draft_probs, target_probs]
  arrays += [] if lengths is None else [lengths]
  kept, at_most = [], []
  for begin in range(0, rows, _ROWS):
    chunk = [array[begin : begin + _ROWS] for array in arrays]
    short = _ROWS - len(chunk[0])
    chunk = [
      np.pad(x, [(0, short)] + [(0, 0)] * (x.ndim - 1), mode="edge")
      for x in chunk
    ]
    one, other = _thresholds(rule, *chunk, *([None] * (4 - len(chunk))))
    kept.append(np.float64(one))
    at_most.append(np.float64(other))
  kept = np.concatenate(kept)[:rows]
  at_most = np.concatenate(at_most)[:rows]
  passes = np.pad(kept, ((0, 0), (1, 0)), constant_values=1)
  fails = np.pad(1 - kept, ((0, 0), (0, 1)), constant_values=1)
  if rule is apply_block_rule:
    stops = passes * np.cumprod(fails[:, ::-1], axis=1)[:, ::-1]
  else:
    stops = np.cumprod(passes, axis=1) * fails
  ends = np.pad(at_most, ((0, 0), (0, 0), (1, 1)))
  ends[..., -1] = 1.0
  return stops[..., None] * np.diff(ends, axis=-1)


@jax.jit
def _draw_ends(probs):
  words = jnp.arange(probs.shape[-1] - 1)
  return jax.vmap(
    lambda word: _measure(
      lambda uniform: sample(uniform, probs) <= word, probs.shape[:1]
    )
  )(words).T


def drawn_law(probs):
  """The law of `sample` on float32[R, V], float64."""
  ends = np.pad(np.float64(_draw_ends(probs)), ((0, 0), (1, 1)))
  ends[:, -1] = 1.0
  return np.diff(ends, axis=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
  """A target, a way to draft, and how to decode.

  Attributes:
    target: The target's logits, float32[1, contexts, V]; see `TableModel`.
    draft: The draft's logits; likewise.
    order: Of both.
    gamma: Guesses per round.
    budget: Most tokens to emit.
    eos_id: Ends a sequence.
    sampling: How logits become laws.
    draft_sampling: The same for the draft, if it differs.
    claimed_sampling: What the drafter says it was, if it does not tell the
      truth.
    lengths: Guesses that are made after a prefix, all gamma without it.
  """

  target: np.ndarray
  draft: np.ndarray
  order: int = 2
  gamma: int = 3
  budget: int = 4
  eos_id: int = 1
  sampling: SamplingConfig = _PLAIN
  draft_sampling: SamplingConfig | None = None
  claimed_sampling: SamplingConfig | None = None
  lengths: Callable[[int], int] | None = None


def _real_laws(logits, sampling):
  """The real standardisation of every context, float32[contexts, V]."""
  rows = jnp.asarray(logits[0])[:, None]
  sampler = Sampler(
    jnp.full((len(rows),), sampling.temperature, jnp.float32),
    sampling.top_k,
    sampling.top_p,
    sampling.greedy,
  )
  return np.asarray(sampler.probs(rows)[:, 0])


def _sequences(case: Case, support):
  """All prefixes and all ends, shortest first, and which of them go on."""
  found, live = [()], [()]
  for _ in range(case.budget):
    longer = [(*each, word) for each in live for word in support]
    found += longer
    live = [
      each
      for each in longer
      if each[-1] != case.eos_id and len(each) < case.budget
    ]
  is_live = [
    len(each) < case.budget and case.eos_id not in each for each in found
  ]
  return found, np.array(is_live)


def target_law(case: Case) -> dict[tuple, float]:
  """What the target's own samples are, in float64."""
  return written_law(
    TableModel(VOCAB, case.order),
    standardise(case.target[0], case.sampling),
    eos_id=case.eos_id,
    budget=case.budget,
  )


def written_law(
  model: TableModel, laws, *, eos_id: int, budget: int
) -> dict[tuple, float]:
  """What a table writes whose rows are the laws of the next word."""
  law, ended = {(): 1.0}, {}
  while law:
    longer = {}
    for prefix, mass in law.items():
      for word, prob in enumerate(laws[model.context((0, *prefix))]):
        if prob > 0:
          longer[(*prefix, word)] = mass * prob
    law = {}
    for each, mass in longer.items():
      is_end = each[-1] == eos_id or len(each) == budget
      (ended if is_end else law)[each] = mass
  return ended


def law_after(
  prefix, tokens, outcome, *, eos_id: int, budget: int
) -> collections.Counter:
  """What a round leaves, cut at EOS and budget.

  Args:
    prefix: What was committed before it.
    tokens: Its guesses, int[G].
    outcome: A row of `outcomes`, float[G + 1, V].
  """
  ends = collections.Counter()
  for kept, word in np.argwhere(outcome > 0):
    new = [*tokens[:kept].tolist(), int(word)]
    if eos_id in new:
      new = new[: new.index(eos_id) + 1]
    ends[(*prefix, *new)[:budget]] += outcome[kept, word]
  return ends


def law_of_rounds(
  after: Callable[[tuple], dict[tuple, float]], *, eos_id: int, budget: int
) -> dict[tuple, float]:
  """What rounds emit, one after the other.

  Args:
    after: The law of what a round leaves, given what was committed before.
  """
  live, law = {(): 1.0}, {}
  while live:
    prefix = min(live, key=len)
    mass = live.pop(prefix)
    for end, share in after(prefix).items():
      into = law if eos_id in end or len(end) == budget else live
      into[end] = into.get(end, 0.0) + mass * share
  return law


def emitted_law(
  case: Case, rule=apply_rule, commit=commit, fault=None
) -> dict[tuple, float]:
  """What the rounds emit, summed over all drafts and all outcomes.

  Args:
    case: What decodes.
    rule: The rule of a round, or a wrong one.
    commit: What appends its tokens, or a wrong one.
    fault: An integer that a wrong rule gets in the place of each row's
      length: what is wrong about it.

  Raises:
    AssertionError: If a row is done where the target's sequence is not, or
      the other way round.
  """
  model = TableModel(VOCAB, case.order)
  p = _real_laws(case.target, case.sampling)
  draft_sampling = case.draft_sampling or case.sampling
  guess = q = _real_laws(case.draft, draft_sampling)
  if case.claimed_sampling:
    q = _real_laws(case.draft, case.claimed_sampling)
  drawn = drawn_law(guess)

  # Words that neither model ever says would only lengthen the sums.
  support = np.flatnonzero(np.any(p > 0, 0) | np.any(drawn > 0, 0))
  sequences, is_live = _sequences(case, support.tolist())
  number = {each: i for i, each in enumerate(sequences)}
  prefixes = [sequences[i] for i in np.flatnonzero(is_live)]

  # A round's law depends on the last tokens alone: one round per context.
  rounds, of_prefix = {}, []
  for prefix in prefixes:
    length = case.lengths(len(prefix)) if case.lengths else case.gamma
    seen = (0, *prefix)
    of_prefix.append(rounds.setdefault((model.context(seen), length), prefix))
  round_of = {}
  tokens, draft_probs, target_probs, lengths, weights, owner = (
    [] for _ in range(6)
  )
  for key, prefix in rounds.items():
    length = key[1]
    round_of[prefix] = len(round_of)
    for draft in itertools.product(support.tolist(), repeat=length):
      # What follows a row's last guess is filler that would be accepted.
      filler = case.gamma - length
      draft_tokens = [*draft, *[int(np.argmax(p[key[0]]))] * filler]
      contexts = [
        model.context((0, *prefix, *draft_tokens[:i]))
        for i in range(case.gamma + 1)
      ]
      weight = np.prod(
        [drawn[contexts[i], word] for i, word in enumerate(draft)]
      )
      if weight == 0:
        continue
      laws = [q[each] for each in contexts[:length]]
      laws += [np.eye(VOCAB, dtype=np.float32)[draft_tokens[-1]]] * filler
      tokens.append(draft_tokens)
      draft_probs.append(laws)
      target_probs.append(p[contexts])
      lengths.append(length)
      weights.append(weight)
      owner.append(round_of[prefix])
  tokens = np.int32(tokens)
  if fault is not None:
    lengths = np.full(len(tokens), fault, np.int32)
  elif case.lengths:
    lengths = np.int32(lengths)
  else:
    lengths = None
  law = outcomes(
    rule, tokens, np.float32(draft_probs), np.float32(target_probs), lengths
  )
  law *= np.array(weights)[:, None, None]

  # Every prefix meets every outcome of its round.
  row, accepted, word = np.nonzero(law)
  mass = law[row, accepted, word]
  begin, end, outcome = [], [], []
  for i, prefix in enumerate(of_prefix):
    chosen = np.flatnonzero(np.array(owner)[row] == round_of[prefix])
    outcome.append(chosen)
    begin.append(np.full(len(chosen), i))
  begin, outcome = np.concatenate(begin), np.concatenate(outcome)
  states, dones = _commit_all(
    commit,
    case,
    prefixes,
    begin,
    tokens[row[outcome]],
    accepted[outcome],
    word[outcome],
  )
  should_be_done = ~is_live
  for state, done in zip(states, dones, strict=True):
    # Of a wrong rule only: a sequence that nobody should say.
    if number.setdefault(state, len(number)) == len(sequences):
      sequences.append(state)
      should_be_done = np.append(should_be_done, done)
  end = np.array([number[state] for state in states])
  assert np.array_equal(dones, should_be_done[end]), "rows are done elsewhere"

  steps = np.zeros((len(prefixes), len(sequences)))
  np.add.at(steps, (begin, end), mass[outcome])
  total = np.zeros(len(sequences))
  total[number[()]] = 1.0
  for i, prefix in enumerate(prefixes):  # Shortest first.
    total += total[number[prefix]] * steps[i]
  return {
    each: total[i]
    for i, each in enumerate(sequences)
    if total[i] > 0 and (i >= len(is_live) or not is_live[i])
  }


_jit = functools.cache(functools.partial(jax.jit, static_argnums=6))


def _commit_all(commit, case: Case, prefixes, begin, tokens, accepted, word):
  """The sequences after each outcome, by the real `commit`."""
  buffers = np.zeros((len(prefixes), 1 + WIDTH), np.int32)
  for i, prefix in enumerate(prefixes):
    buffers[i, 1 : 1 + len(prefix)] = prefix
  sizes = np.array([1 + len(prefix) for prefix in prefixes])
  states, dones = [], []
  rows = 8192
  for first in range(0, len(begin), rows):
    chunk = np.arange(first, first + rows) % len(begin)
    source = begin[chunk]
    after = _jit(commit)(
      buffers[source],
      np.int32(sizes[source]),
      np.zeros(rows, bool),
      tokens[chunk],
      Verification(np.int32(accepted[chunk]), np.int32(word[chunk])),
      np.full(rows, case.budget, np.int32),
      case.eos_id,
    )
    kept = min(rows, len(begin) - first)
    buffer, size = np.asarray(after.tokens), np.asarray(after.lengths)
    beyond = np.arange(1 + WIDTH) >= size[:, None]
    assert np.all(buffer[beyond] == 0)  # Nothing after the end but padding.
    states += [tuple(buffer[i, 1 : size[i]].tolist()) for i in range(kept)]
    dones.append(np.asarray(after.is_done)[:kept])
  return states, np.concatenate(dones)
