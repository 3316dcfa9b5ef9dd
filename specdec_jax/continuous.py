"""Continuous batching: a slot is refilled as soon as its row has ended.

A batch of fixed shape decodes on while requests come and go. Where a row has
ended the next request's takes its place, cache included, in the same buffers;
the other rows notice nothing, and nothing is compiled again:

    insert:  prefill of one request, written over the row of a slot
    advance: rounds, until one of the rows ends or there were enough of them

The round is `speculative.step`, so that a request's output is what
`speculative_generate` gives for it alone with the same key, whoever its
neighbours are and whatever its slot held before. With gamma = 0 all of this is
plain decoding.

A slot without a request, like a row that has ended, is computed on and never
committed: what static shapes cost.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Array, Bool, Float, Int, Key, Params
from specdec_jax.base import DecoderModel, Drafter, GenerateOutput
from specdec_jax.config import SpeculativeConfig
from specdec_jax.speculative import (
  Run,
  SpeculativeState,
  check_inputs,
  finish,
  prepare,
  start,
  step,
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Slots:
  """Rows and what each was asked for; every leaf leads with B, the slots.

  Attributes:
    state: The rows; that of an empty slot is done.
    temperature: float32[B].
    budgets: int32[B], most tokens to emit.
  """

  state: SpeculativeState
  temperature: Float[Array, "B"]
  budgets: Int[Array, "B"]


class Progress(NamedTuple):
  """What the host must know of the rows after some rounds.

  Attributes:
    lengths: int32[B], tokens emitted.
    is_done: bool[B].
  """

  lengths: Int[Array, "B"]
  is_done: Bool[Array, "B"]


def rows(run: Run, inputs: Int[Array, "B S"]) -> Slots:
  """Lets both models read requests, one a row.

  Args:
    run: Who decodes; its key, temperatures and budgets are the requests'.
    inputs: int32[B, S], padded with 0.
  """
  return Slots(start(run, inputs), run.temperature, run.budgets)


@jax.jit
def empty(run: Run, inputs: Int[Array, "B S"]) -> Slots:
  """Returns slots without requests.

  Args:
    run: As in `rows`; only shapes matter.
    inputs: Likewise.
  """

  def blank(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
      return jnp.broadcast_to(jax.random.key(0), leaf.shape)
    return jnp.zeros(leaf.shape, leaf.dtype)

  slots = jax.tree.map(blank, jax.eval_shape(rows, run, inputs))
  state = dataclasses.replace(
    slots.state,
    lengths=jnp.ones_like(slots.state.lengths),
    is_done=jnp.ones_like(slots.state.is_done),
  )
  return dataclasses.replace(slots, state=state)


@functools.partial(jax.jit, donate_argnames="slots")
def insert(
  run: Run, slots: Slots, slot: Int[Array, ""], inputs: Int[Array, "1 S"]
) -> Slots:
  """Writes a request over a row, in place.

  Args:
    run: As in `rows`, of the one request.
    slots: The rows; their buffers are donated.
    slot: int32[], which of them; one that there is.
    inputs: int32[1, S].
  """
  return jax.tree.map(
    lambda all_rows, row: jax.lax.dynamic_update_slice_in_dim(
      all_rows, row, slot, axis=0
    ),
    slots,
    rows(run, inputs),
  )


@functools.partial(jax.jit, donate_argnames="slots")
def advance(
  run: Run, slots: Slots, max_rounds: Int[Array, ""]
) -> tuple[Slots, Progress]:
  """Decodes until a row ends, but no more than some rounds.

  Args:
    run: Who decodes; temperatures and budgets are those of the slots.
    slots: The rows; their buffers are donated.
    max_rounds: int32[].
  """
  run = dataclasses.replace(
    run, temperature=slots.temperature, budgets=slots.budgets
  )
  is_live = ~slots.state.is_done

  def goes_on(carry):
    rounds, state = carry
    none_ended = ~jnp.any(is_live & state.is_done)
    return (rounds < max_rounds) & none_ended & jnp.any(is_live)

  def body(carry):
    rounds, state = carry
    return rounds + 1, step(run, state)[0]

  _, state = jax.lax.while_loop(goes_on, body, (0, slots.state))
  progress = Progress(state.lengths - 1, state.is_done)
  return dataclasses.replace(slots, state=state), progress


@jax.jit
def output_of(slots: Slots, slot: Int[Array, ""]) -> GenerateOutput:
  """Returns a row's output so far, as that of a batch of one."""
  return jax.tree.map(
    lambda all_rows: jax.lax.dynamic_slice_in_dim(all_rows, slot, 1, axis=0),
    finish(slots.state),
  )


class ContinuousBatch:
  """Slots that decode side by side, each a request of its own.

  For example, all requests through as few slots as there are:

      batch = sd.ContinuousBatch(slots=8, input_length=64, ...)
      while waiting or len(batch.free) < 8:
        for slot in batch.free:
          if waiting:
            batch.insert(slot, *waiting.pop())
        for slot in batch.advance(max_rounds=4):
          print(batch.output(slot).tokens)

  Four programs are compiled, one at the first use of each method, and none
  after that. The host waits for the device once in a call of `advance`.
  """

  def __init__(
    self,
    *,
    slots: int,
    input_length: int,
    target: DecoderModel,
    target_params: Params,
    drafter: Drafter | None,
    draft_params: Params,
    config: SpeculativeConfig,
  ):
    """Makes empty slots.

    Args:
      slots: How many requests decode side by side.
      input_length: The most tokens of a request's inputs.
      target: As in `speculative_generate`.
      target_params: Likewise.
      drafter: Likewise.
      draft_params: Likewise.
      config: Likewise, with one temperature and one `max_new_tokens`: what
        requests get that ask for nothing else. No request may ask for more
        tokens, and at temperature 0 none for another temperature, as the
        program then draws nothing.

    Raises:
      ValueError: If sizes or vocabularies do not fit together, or the
        configuration is not one for all requests.
      TypeError: If an argument is of the wrong kind.
    """
    for name, value in (("slots", slots), ("input_length", input_length)):
      if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(
          f"{name} is {value!r}; it must be an integer, at least 1."
        )
    run, inputs = prepare(
      jax.random.key(0),
      np.zeros((slots, input_length), np.int32),
      target=target,
      target_params=target_params,
      drafter=drafter,
      draft_params=draft_params,
      config=config,
    )
    _check_one_row(config)
    if config.num_decodes > 1:
      raise ValueError(
        f"num_decodes is {config.num_decodes}, but a slot holds one decode;"
        " set it to 1, and insert a request several times with several keys."
      )
    self.config = config
    self.input_length = input_length
    self._run = run
    self._slots = empty(run, inputs)
    self._is_free = np.ones(slots, bool)
    self._lengths = np.zeros(slots, np.int32)

  @property
  def free(self) -> tuple[int, ...]:
    """The slots whose row has ended, or that have had no request yet."""
    return tuple(np.flatnonzero(self._is_free).tolist())

  @property
  def lengths(self) -> Int[np.ndarray, "B"]:
    """int32[B], tokens that each slot's request has so far."""
    return self._lengths.copy()

  @property
  def nbytes(self) -> int:
    """Bytes of the slots on the device: caches, tokens and counters."""
    return sum(each.nbytes for each in jax.tree.leaves(self._slots))

  def insert(
    self,
    slot: int,
    key: Key[Array, ""],
    inputs: Int[Array | np.ndarray, "S"],
    *,
    max_new_tokens: int | None = None,
    temperature: float | None = None,
  ) -> None:
    """Puts a request into a free slot.

    Args:
      slot: One of `free`; the output that it held is gone.
      key: The request's own typed key.
      inputs: int32[S], its token ids; shorter ones than `input_length` are
        padded.
      max_new_tokens: Most tokens to emit; None for the configuration's.
      temperature: Likewise.

    Raises:
      ValueError: If the slot is not free, the inputs are too long or no token
        ids, the key is no typed key, or the program is not made for what is
        asked for.
    """
    if slot not in self.free:
      raise ValueError(
        f"slot is {slot}, which is none of the free slots {self.free}; wait"
        " until advance returns it."
      )
    self._check_key(key)
    budgets, temperatures = self._asked_for(max_new_tokens, temperature)
    run = dataclasses.replace(
      self._run,
      key=key[None],
      temperature=jax.device_put(temperatures),
      budgets=jax.device_put(budgets),
    )
    self._slots = insert(
      run, self._slots, jax.device_put(np.int32(slot)), self._padded(inputs)
    )
    self._is_free[slot] = False
    self._lengths[slot] = 0

  def advance(self, max_rounds: int = 1) -> list[int]:
    """Decodes until a request ends, but no more than some rounds.

    Args:
      max_rounds: How many rounds, each of one target call. The more, the less
        often the host is asked; the fewer, the sooner it sees new tokens, and
        can fill slots that are free.

    Returns:
      The slots whose requests have ended, which are free again.

    Raises:
      ValueError: If `max_rounds` is not positive.
    """
    if max_rounds < 1:
      raise ValueError(f"max_rounds is {max_rounds}; it must be at least 1.")
    self._slots, progress = advance(
      self._run, self._slots, jax.device_put(np.int32(max_rounds))
    )
    lengths, is_done = jax.device_get(progress)
    ended = np.flatnonzero(is_done & ~self._is_free)
    # Copies: what JAX returns cannot be written to.
    self._lengths, self._is_free = lengths.copy(), is_done.copy()
    return ended.tolist()

  def output(self, slot: int) -> GenerateOutput:
    """Returns what a slot's request has so far; all of it, if it has ended.

    As of a batch of one, on the host; `tokens` is as wide as the
    configuration's `max_new_tokens`, whatever the request's.

    Args:
      slot: One that has had a request. What it held is there until the next
        one is inserted.

    Raises:
      ValueError: If it has had none.
    """
    slots = len(self._is_free)
    if not 0 <= slot < slots or not (
      self._lengths[slot] or not self._is_free[slot]
    ):
      raise ValueError(
        f"slot is {slot}, which has had no request; there are slots 0 to"
        f" {slots - 1}."
      )
    return jax.device_get(
      output_of(self._slots, jax.device_put(np.int32(slot)))
    )

  def _check_key(self, key: Key[Array, ""]) -> None:
    wanted = self._slots.state.keys.dtype
    if getattr(key, "dtype", None) != wanted or key.ndim:
      raise ValueError(
        f"key is {key!r}; give one typed key of JAX's default kind,"
        f" {wanted}: jax.random.key(seed)."
      )

  def _asked_for(
    self, max_new_tokens: int | None, temperature: float | None
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns a request's budget and temperature, int32[1] and float32[1]."""
    config = self.config
    if max_new_tokens is not None:
      config = dataclasses.replace(config, max_new_tokens=max_new_tokens)
    if temperature is not None:
      sampling = dataclasses.replace(config.sampling, temperature=temperature)
      config = dataclasses.replace(config, sampling=sampling)
    _check_one_row(config)
    if config.width > self.config.width:
      raise ValueError(
        f"max_new_tokens is {config.width}, but the slots have room for"
        f" {self.config.width}, the configuration's max_new_tokens; make them"
        " for more, or ask for less."
      )
    if self._run.greedy and not config.sampling.greedy:
      raise ValueError(
        f"temperature is {temperature}, but the configuration's is 0, whose"
        " program draws nothing; give that a positive temperature, and"
        " temperature=0 to the requests that are greedy."
      )
    return (
      np.array([config.max_new_tokens], np.int32),
      np.array([config.sampling.temperature], np.float32),
    )

  def _padded(self, inputs: Int[Array | np.ndarray, "S"]) -> Int[Array, "1 _"]:
    inputs = np.asarray(inputs)
    if inputs.ndim != 1:
      raise ValueError(
        f"inputs have shape {inputs.shape}; give one request's token ids, [S]."
      )
    if len(inputs) > self.input_length:
      raise ValueError(
        f"inputs have {len(inputs)} tokens, more than input_length ="
        f" {self.input_length}; make the slots for longer ones, or shorten"
        " these."
      )
    return check_inputs(
      np.pad(inputs, (0, self.input_length - len(inputs)))[None],
      self._run.target,
    )


def _check_one_row(config: SpeculativeConfig) -> None:
  for name, value in (
    ("max_new_tokens", config.max_new_tokens),
    ("temperature", config.sampling.temperature),
  ):
    if isinstance(value, tuple):
      raise ValueError(
        f"{name} is {value}, one per row, but rows change their requests; give"
        " one number to all, and a request's own to insert."
      )
