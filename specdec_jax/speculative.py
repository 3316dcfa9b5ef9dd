"""Speculative decoding: the state, one step, the loop (paper, Algorithm 1).

    draft:  the drafter guesses gamma tokens
    score:  the target reads the last token and all guesses, in one call
    verify: the rejection rule keeps some guesses and adds one token
    commit: write them, advance each row by its own count, count

All of it, prefill included, is one XLA program with static shapes; a row
that has ended stays as it is while the others go on. With gamma = 0 nothing
is drafted, and the same loop is plain autoregressive decoding: there is one
loop, and `autoregressive` calls it too.

Invariant, for each row: `tokens[:length]` is committed, beginning with the
first decoder input; every committed token but the last has its entry in the
target's cache; the last one is the next call's first input.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Array, Bool, Cache, Float, Int, Key, Params
from specdec_jax.base import (
  Context,
  DecoderModel,
  Draft,
  Drafter,
  GenerateOutput,
  SpeculationStats,
)
from specdec_jax.config import MIN_TEMPERATURE, SpeculativeConfig
from specdec_jax.keys import fold_in_rows, row_keys, split_rows
from specdec_jax.sampling import Sampler, token_log_probs
from specdec_jax.statistics import count_round, zero_stats
from specdec_jax.verification import Verification, is_near_best, verify


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Run:
  """Who decodes, and how: all that stays the same from step to step.

  Attributes:
    target_params: The target's parameters.
    draft_params: The drafter's.
    key: A typed key, or one per row.
    temperature: float32[B].
    budgets: int32[B], most tokens to emit.
    target: The model whose law the output has.
    drafter: What guesses; None if gamma is 0.
    config: What is static of it shapes the program; its temperatures and
      budgets are blanked out, since the arrays above hold them.
    greedy: Whether all temperatures are known to be zero.
  """

  target_params: Params
  draft_params: Params
  key: Key[Array, "..."]
  temperature: Float[Array, "B"]
  budgets: Int[Array, "B"]
  target: DecoderModel = dataclasses.field(metadata={"static": True})
  drafter: Drafter | None = dataclasses.field(metadata={"static": True})
  config: SpeculativeConfig = dataclasses.field(metadata={"static": True})
  greedy: bool = dataclasses.field(metadata={"static": True})

  @property
  def sampler(self) -> Sampler:
    """What turns logits into probabilities, for target and draft alike."""
    sampling = self.config.sampling
    return Sampler(
      self.temperature, sampling.top_k, sampling.top_p, self.greedy
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SpeculativeState:
  """What a step changes.

  Attributes:
    tokens: int32[B, 1 + max_new_tokens], committed tokens, then padding.
    lengths: int32[B], committed tokens, the first decoder input included.
    is_done: bool[B], True after EOS or the row's budget.
    log_probs: float32[B], see `GenerateOutput`.
    position: int32[B], the position of `tokens[:, 0]`; never changes.
    keys: A key per row; never changes.
    target_cache: The target's.
    draft_cache: The drafter's.
    stats: The counters.
  """

  tokens: Int[Array, "B L"]
  lengths: Int[Array, "B"]
  is_done: Bool[Array, "B"]
  log_probs: Float[Array, "B"]
  position: Int[Array, "B"]
  keys: Key[Array, "B"]
  target_cache: Cache
  draft_cache: Cache
  stats: SpeculationStats


class Round(NamedTuple):
  """What a step did, for those who want to watch.

  Attributes:
    draft: The guesses.
    verification: The verdict on them.
    num_emitted: int32[B], tokens committed, after the cut at EOS and budget.
  """

  draft: Draft
  verification: Verification
  num_emitted: Int[Array, "B"]


class Commit(NamedTuple):
  """A round's tokens in their buffer; fields as in `SpeculativeState`."""

  tokens: Int[Array, "B L"]
  lengths: Int[Array, "B"]
  is_done: Bool[Array, "B"]
  new_tokens: Int[Array, "B G1"]
  num_emitted: Int[Array, "B"]


def commit(
  tokens: Int[Array, "B L"],
  lengths: Int[Array, "B"],
  is_done: Bool[Array, "B"],
  draft_tokens: Int[Array, "B G"],
  verification: Verification,
  budgets: Int[Array, "B"],
  eos_id: int,
) -> Commit:
  """Appends a round's tokens, cut at the first EOS and at the row's budget.

  Args:
    tokens: As in `SpeculativeState`.
    lengths: As in `SpeculativeState`.
    is_done: As in `SpeculativeState`; such rows are left as they are.
    draft_tokens: int32[B, G], the guesses.
    verification: The verdict on them.
    budgets: int32[B].
    eos_id: -1 for none.
  """
  batch, gamma = draft_tokens.shape
  index = jnp.arange(gamma + 1)
  new_tokens = jnp.where(
    index < verification.num_accepted[:, None],
    jnp.pad(draft_tokens, ((0, 0), (0, 1))),
    verification.next_token[:, None],
  )
  num_emitted = verification.num_accepted + 1
  is_eos = (new_tokens == eos_id) & (index < num_emitted[:, None])
  first_eos = jnp.min(jnp.where(is_eos, index, gamma + 1), axis=1)
  num_emitted = jnp.minimum(num_emitted, first_eos + 1)
  num_emitted = jnp.minimum(num_emitted, budgets - (lengths - 1))
  num_emitted = jnp.where(is_done, 0, num_emitted)
  # What is not emitted is sent to a slot that does not exist.
  slots = jnp.where(
    index < num_emitted[:, None], lengths[:, None] + index, tokens.shape[1]
  )
  tokens = tokens.at[jnp.arange(batch)[:, None], slots].set(
    new_tokens, mode="drop"
  )
  lengths += num_emitted
  is_done |= (first_eos < num_emitted) | (lengths - 1 >= budgets)
  return Commit(tokens, lengths, is_done, new_tokens, num_emitted)


def start(run: Run, inputs: Int[Array, "B S"]) -> SpeculativeState:
  """Lets both models read the inputs.

  Args:
    run: Who decodes.
    inputs: int32[B, S], padded with 0.
  """
  config = run.config
  batch = inputs.shape[0]
  # The last round starts with a token to go and writes gamma + 1 entries; a
  # row that has ended keeps writing as many at its end.
  length = config.width + config.gamma + 1
  target = run.target.prefill(run.target_params, inputs, length)
  draft_cache = None
  if run.drafter is not None:
    draft_cache = run.drafter.prefill(run.draft_params, inputs, length, target)
  tokens = jnp.full((batch, 1 + config.width), config.pad_id, jnp.int32)
  return SpeculativeState(
    tokens=tokens.at[:, 0].set(target.token),
    lengths=jnp.ones((batch,), jnp.int32),
    is_done=jnp.zeros((batch,), bool),
    log_probs=jnp.zeros((batch,), jnp.float32),
    position=target.position,
    keys=row_keys(run.key, batch),
    target_cache=target.cache,
    draft_cache=draft_cache,
    stats=zero_stats(batch, config.gamma),
  )


def step(run: Run, state: SpeculativeState) -> tuple[SpeculativeState, Round]:
  """One round: draft, score, verify, commit.

  Args:
    run: Who decodes.
    state: From `start` or from the last step.

  Returns:
    The state after the round, and what happened in it. Each row that has not
    ended has 1 to gamma + 1 more tokens.
  """
  gamma = run.config.gamma
  batch = state.tokens.shape[0]
  sampler = run.sampler
  # Fresh in every round: a row's length grows in each.
  draft_keys, verify_keys = split_rows(
    fold_in_rows(state.keys, state.lengths), 2
  )

  draft_cache = state.draft_cache
  if run.drafter is not None:
    context = Context(
      state.tokens, state.lengths, state.position, state.is_done
    )
    # A scope names what follows in profiles and compiled programs.
    with jax.named_scope("draft"):
      draft, draft_cache = run.drafter.draft(
        run.draft_params, context, draft_cache, draft_keys, sampler, gamma
      )
  else:
    draft = Draft(
      jnp.zeros((batch, 0), jnp.int32),
      jnp.zeros((batch, 0, run.target.vocab_size), jnp.float32),
    )

  with jax.named_scope("score"):
    logits, target_cache, num_scored = _score(run, state, draft)

  lenience = run.config.lenience
  near_best = None
  if not run.config.is_exact:
    is_greedy = run.temperature <= MIN_TEMPERATURE
    near_best = is_near_best(draft.tokens, logits, is_greedy, lenience)
  verification = verify(
    verify_keys,
    draft.tokens,
    draft.probs,
    sampler.probs(logits),
    draft.lengths,
    lenience,
    near_best,
    run.config.verification,
  )

  committed = commit(
    state.tokens,
    state.lengths,
    state.is_done,
    draft.tokens,
    verification,
    run.budgets,
    run.config.eos_id,
  )
  stats = count_round(
    state.stats,
    is_live=~state.is_done,
    num_drafted=draft.num_guesses,
    num_scored=num_scored,
    num_accepted=verification.num_accepted,
    num_emitted=committed.num_emitted,
  )
  state = dataclasses.replace(
    state,
    tokens=committed.tokens,
    lengths=committed.lengths,
    is_done=committed.is_done,
    log_probs=state.log_probs + _log_probs(logits, committed),
    target_cache=target_cache,
    draft_cache=draft_cache,
    stats=stats,
  )
  return state, Round(draft, verification, committed.num_emitted)


def _score(
  run: Run, state: SpeculativeState, draft: Draft
) -> tuple[Float[Array, "B G1 V"], Cache, Int[Array, ""]]:
  """Lets the target read the last token and the guesses, in one call.

  Returns:
    Its logits, its cache, and how many guesses it read.
  """
  gamma = draft.tokens.shape[1]
  last = jnp.take_along_axis(state.tokens, state.lengths[:, None] - 1, axis=1)
  tokens = jnp.concatenate([last, draft.tokens], axis=1)

  def score(size, cache):
    logits, cache = run.target.extend(
      run.target_params,
      tokens[:, : size + 1],
      state.position + state.lengths - 1,
      cache,
    )
    return jnp.pad(logits, ((0, 0), (0, gamma - size), (0, 0))), cache

  if draft.lengths is None or run.drafter is None:
    return *score(gamma, state.target_cache), jnp.asarray(gamma)
  sizes = run.drafter.sizes(gamma)
  most = jnp.max(jnp.where(state.is_done, 0, draft.lengths))
  index = jnp.searchsorted(jnp.asarray(sizes), most)
  logits, cache = jax.lax.switch(
    index,
    [functools.partial(score, size) for size in sizes],
    state.target_cache,
  )
  return logits, cache, jnp.asarray(sizes)[index]


def finish(state: SpeculativeState) -> GenerateOutput:
  """Returns what was emitted, without the first decoder input."""
  return GenerateOutput(
    tokens=state.tokens[:, 1:],
    lengths=state.lengths - 1,
    log_probs=state.log_probs,
    stats=state.stats,
  )


def speculative_generate(
  key: Key[Array, ""] | Key[Array, "B"],
  inputs: Int[Array | np.ndarray, "B S"],
  *,
  target: DecoderModel,
  target_params: Params,
  drafter: Drafter | None,
  draft_params: Params,
  config: SpeculativeConfig,
) -> GenerateOutput:
  """Decodes as the target would, several tokens per target call.

  The output has the target's own distribution; at temperature 0 in float32 it
  is the baseline's output token for token. (Not so with `config.lenience`
  below 1, which is lossy.)

  Args:
    key: A typed key, from which each row's is derived by its index; or one
      per row, which makes a row independent of its place in the batch.
    inputs: int32[B, S], padded with 0 (encoder inputs, or prompts).
    target: The model to decode as.
    target_params: Its parameters.
    drafter: What guesses, for example `model_drafter(draft)`; may be None if
      `config.gamma` is 0.
    draft_params: The drafter's parameters.
    config: What to do.

  Returns:
    Tokens, lengths, log probabilities and counters.

  Raises:
    ValueError: If sizes, vocabularies or the key do not fit together.
    TypeError: If an argument is of the wrong kind.
  """
  run, inputs = prepare(
    key,
    inputs,
    target=target,
    target_params=target_params,
    drafter=drafter,
    draft_params=draft_params,
    config=config,
  )
  return _generate(run, inputs)


@jax.jit
def _generate(run: Run, inputs: Int[Array, "B S"]) -> GenerateOutput:
  num_decodes = run.config.num_decodes
  batch = inputs.shape[0]
  if num_decodes > 1:
    run, inputs = _repeat(run, inputs, num_decodes)
  state = jax.lax.while_loop(
    lambda state: ~jnp.all(state.is_done),
    lambda state: step(run, state)[0],
    start(run, inputs),
  )
  output = finish(state)
  if num_decodes > 1:
    output = _rank(output, batch, num_decodes)
  return output


def prepare(
  key: Key[Array, ""] | Key[Array, "B"],
  inputs: Int[Array | np.ndarray, "B S"],
  *,
  target: DecoderModel,
  target_params: Params,
  drafter: Drafter | None,
  draft_params: Params,
  config: SpeculativeConfig,
) -> tuple[Run, Int[Array, "B S"]]:
  """Checks all arguments of `speculative_generate` and puts them on device.

  Returns:
    The run and the inputs, for `start` and `step`.
  """
  if not isinstance(config, SpeculativeConfig):
    raise TypeError(f"config is {config!r}; give a SpeculativeConfig.")
  _check_models(target, drafter, config)
  inputs = check_inputs(inputs, target)
  batch = inputs.shape[0]
  row_keys(key, batch)
  # Where nothing is drawn both rules keep the same guesses.
  is_drawn = config.gamma and not config.sampling.greedy
  run = Run(
    target_params=target_params,
    draft_params=draft_params if config.gamma else None,
    key=key,
    temperature=_rows(
      "temperature", config.sampling.temperature, batch, np.float32
    ),
    budgets=_rows("max_new_tokens", config.max_new_tokens, batch, np.int32),
    target=target,
    drafter=drafter if config.gamma else None,
    config=dataclasses.replace(
      config,
      max_new_tokens=config.width,
      lenience=1.0 if config.is_exact else config.lenience,
      verification=config.verification if is_drawn else "token",
      sampling=dataclasses.replace(config.sampling, temperature=1.0),
    ),
    greedy=config.sampling.greedy,
  )
  return run, inputs


def _log_probs(
  logits: Float[Array, "B G1 V"], committed: Commit
) -> Float[Array, "B"]:
  """The target's log probability of what a round emitted."""
  log_probs = token_log_probs(logits, committed.new_tokens)
  is_emitted = jnp.arange(log_probs.shape[1]) < committed.num_emitted[:, None]
  return jnp.sum(jnp.where(is_emitted, log_probs, 0.0), axis=1)


def _repeat(run: Run, inputs, num_decodes: int):
  """Makes `num_decodes` adjacent rows of each; the encoder runs on each."""
  batch = inputs.shape[0]

  def repeat(x):
    return jnp.repeat(x, num_decodes, axis=0)

  keys = fold_in_rows(
    repeat(row_keys(run.key, batch)),
    jnp.tile(jnp.arange(num_decodes), batch),
  )
  run = dataclasses.replace(
    run,
    key=keys,
    temperature=repeat(run.temperature),
    budgets=repeat(run.budgets),
  )
  return run, repeat(inputs)


def _rank(output: GenerateOutput, batch: int, num_decodes: int):
  """Splits the decodes of each input off the batch, best last."""
  output = jax.tree.map(
    lambda x: x.reshape(batch, num_decodes, *x.shape[1:]), output
  )
  order = jnp.argsort(output.log_probs, axis=1)
  return jax.tree.map(
    lambda x: jnp.take_along_axis(
      x, order.reshape(*order.shape, *(1,) * (x.ndim - 2)), axis=1
    ),
    output,
  )


def _check_models(target, drafter, config: SpeculativeConfig):
  if not isinstance(target, DecoderModel):
    raise TypeError(
      f"target is {type(target).__name__}; give a DecoderModel, which has"
      " vocab_size, prefill and extend."
    )
  for name, token in (("eos_id", config.eos_id), ("pad_id", config.pad_id)):
    if token >= target.vocab_size:
      raise ValueError(
        f"{name} is {token}, but the target's vocabulary has"
        f" {target.vocab_size} entries; set {name} to the tokenizer's own."
      )
  if not config.gamma:
    return
  if not isinstance(drafter, Drafter):
    hint = (
      "wrap the draft model: sd.model_drafter(draft)"
      if isinstance(drafter, DecoderModel)
      else "give a Drafter, such as sd.model_drafter(draft), or set gamma=0"
    )
    raise TypeError(f"drafter is {type(drafter).__name__}; {hint}.")
  if drafter.vocab_size != target.vocab_size:
    raise ValueError(
      f"The drafter's vocabulary has {drafter.vocab_size} entries and the"
      f" target's {target.vocab_size}. Speculation needs one tokenizer for"
      " both. If they share one and differ in padding alone, make the drafter"
      f" with vocab_size={target.vocab_size}, for example"
      f" sd.model_drafter(draft, vocab_size={target.vocab_size})."
    )


def check_inputs(
  inputs: Int[Array | np.ndarray, "B S"], target: DecoderModel
) -> Int[Array, "B S"]:
  """Checks inputs and puts them on device.

  Raises:
    ValueError: If they are no token ids of the target's.
  """
  if not isinstance(inputs, jax.Array):
    inputs = np.asarray(inputs)
  if inputs.ndim != 2 or not jnp.issubdtype(inputs.dtype, jnp.integer):
    raise ValueError(
      f"inputs have shape {inputs.shape} and dtype {inputs.dtype}; give"
      " token ids as integers [batch, source length], padded with 0."
    )
  if 0 in inputs.shape:
    raise ValueError(
      f"inputs have shape {inputs.shape}; there must be at least one row"
      " and one token."
    )
  if isinstance(inputs, np.ndarray):
    lowest, highest = inputs.min(), inputs.max()
    if lowest < 0 or highest >= target.vocab_size:
      raise ValueError(
        f"inputs hold token id {lowest if lowest < 0 else highest}, but the"
        f" target's vocabulary has ids 0 to {target.vocab_size - 1}; encode"
        " them with the target's tokenizer."
      )
    return jax.device_put(inputs.astype(np.int32))
  return inputs


def _rows(name: str, value, batch: int, dtype) -> Array:
  """One number per row, on device."""
  array = np.asarray(value, dtype)
  if array.ndim and array.shape != (batch,):
    raise ValueError(
      f"{name} has {array.shape[0]} entries for a batch of {batch} rows;"
      " give one number, or one per row."
    )
  return jax.device_put(np.broadcast_to(array, (batch,)))
