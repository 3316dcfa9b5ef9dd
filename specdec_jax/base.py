"""The types that the core and everything around it agree on.

A model is two pure functions, a drafter is two more; the algorithm knows
nothing else about them. Both are static arguments of the compiled program,
so they must be hashable and compare by value: frozen dataclasses do.
"""

import dataclasses
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import (
  Array,
  Bool,
  Cache,
  Float,
  Int,
  Key,
  Params,
)
from specdec_jax.sampling import Sampler


class Prefill(NamedTuple):
  """A model that has read its inputs and waits for the first decoder call.

  Attributes:
    cache: The model's own; every leaf leads with the batch dimension.
    token: int32[B], the first decoder input: the start token of an
      encoder-decoder, the prompt's last token of a decoder-only model.
    position: int32[B], the position at which `token` goes in.
    encoded: float[B, S, D], what the encoder returned, for drafters that read
      it too; None from a model without one.
  """

  cache: Cache
  token: Int[Array, "B"]
  position: Int[Array, "B"]
  encoded: Float[Array, "B S D"] | None = None


@runtime_checkable
class DecoderModel(Protocol):
  """Anything that scores tokens: the target, or what a draft is made from."""

  @property
  def vocab_size(self) -> int:
    """Width of the logits."""
    ...

  def prefill(
    self, params: Params, inputs: Int[Array, "B S"], length: int
  ) -> Prefill:
    """Reads the inputs, once per request.

    Args:
      params: The model's parameters.
      inputs: int32[B, S], padded with 0.
      length: How many positions from `Prefill.position` on the decoder will
        write to; the cache must hold them.
    """
    ...

  def extend(
    self,
    params: Params,
    tokens: Int[Array, "B Q"],
    positions: Int[Array, "B"],
    cache: Cache,
  ) -> tuple[Float[Array, "B Q V"], Cache]:
    """Scores Q tokens a row in one call.

    Token i of row b goes in at `positions[b] + i`: its cache entry overwrites
    what stood there, and it sees entries at or before its own position only.
    So rolling back is calling `extend` again at an earlier position.

    Args:
      params: The model's parameters.
      tokens: int32[B, Q].
      positions: int32[B], each row's position of `tokens[:, 0]`.
      cache: From `prefill` or from the last call.

    Returns:
      logits: float32[B, Q, V]; row i is for the token after `tokens[:, i]`.
      cache: With the entries of `tokens`.
    """
    ...


@runtime_checkable
class LayeredModel(DecoderModel, Protocol):
  """A model whose `extend` can be done in two parts, layers by layers."""

  @property
  def num_layers(self) -> int:
    """How many layers `extend` goes through."""
    ...

  def extend_first(
    self,
    params: Params,
    tokens: Int[Array, "B Q"],
    positions: Int[Array, "B"],
    cache: Cache,
    layers: int,
  ) -> tuple[Float[Array, "B Q D"], Cache]:
    """Lets Q tokens a row go through the first layers.

    Args:
      params: As in `extend`, as is all that is not explained here.
      tokens: Likewise.
      positions: Likewise.
      cache: Likewise.
      layers: How many layers.

    Returns:
      states: float[B, Q, D], what the last of these hands on.
      cache: With these layers' entries of `tokens`.
    """
    ...

  def read_out(
    self, params: Params, states: Float[Array, "B Q D"]
  ) -> Float[Array, "B Q V"]:
    """Returns the logits that states give as they are, float32[B, Q, V]."""
    ...

  def extend_rest(
    self,
    params: Params,
    states: Float[Array, "B Q D"],
    positions: Int[Array, "B"],
    cache: Cache,
    layers: int,
  ) -> tuple[Float[Array, "B Q V"], Cache]:
    """Does the rest of `extend`.

    Args:
      params: As in `extend`.
      states: From `extend_first`, for the same positions and layers.
      positions: As in `extend`.
      cache: With the first layers' entries of all tokens so far.
      layers: How many layers the states come from.
    """
    ...


class Context(NamedTuple):
  """What is committed, as a drafter sees it.

  Attributes:
    tokens: int32[B, L]; `tokens[b, :lengths[b]]` is committed, beginning with
      the first decoder input; what follows is filler.
    lengths: int32[B], at least 1. The last committed token,
      `tokens[b, lengths[b] - 1]`, has not been fed to any model.
    position: int32[B], the position of `tokens[:, 0]`.
    is_done: bool[B], rows whose guesses nobody wants; None for no row.
  """

  tokens: Int[Array, "B L"]
  lengths: Int[Array, "B"]
  position: Int[Array, "B"]
  is_done: Bool[Array, "B"] | None = None


class Draft(NamedTuple):
  """The guesses of one round.

  Attributes:
    tokens: int32[B, G].
    probs: float32[B, G, V], the law that each token was really drawn from; a
      deterministic drafter carries one-hot rows.
    lengths: int32[B], how many of the G are guesses; the rest is filler that
      is neither verified nor counted. None where every row drafts all G.
    states: float[B, G + 1, D], what the target's own first layers made of the
      last committed token and the guesses, where these were its work; its call
      then begins behind them (`LayeredModel`). None elsewhere.
  """

  tokens: Int[Array, "B G"]
  probs: Float[Array, "B G V"]
  lengths: Int[Array, "B"] | None = None
  states: Float[Array, "B G1 D"] | None = None

  @property
  def num_guesses(self) -> Int[Array, "B"]:
    """`lengths`, or G in every row, int32[B]."""
    if self.lengths is not None:
      return self.lengths
    batch, gamma = self.tokens.shape
    return jnp.full((batch,), gamma, jnp.int32)


@runtime_checkable
class Drafter(Protocol):
  """Anything that guesses the target's next tokens (paper, section 3.6).

  One that also has `shared_layers`, a positive number, guesses with as many of
  the target's own first layers: `draft` is handed the target's parameters and
  its cache, in the place of its own, and returns `Draft.states`.
  """

  @property
  def vocab_size(self) -> int:
    """Width of `Draft.probs`; must be the target's."""
    ...

  def sizes(self, gamma: int) -> tuple[int, ...]:
    """How many guesses there may be to score in a round, for all rows.

    The program has a target call for each, and a round makes the smallest one
    that holds every row's guesses.

    Args:
      gamma: As in `draft`.

    Returns:
      Numbers from 0 on, ascending; the last is gamma.
    """
    ...

  def prefill(
    self,
    params: Params,
    inputs: Int[Array, "B S"],
    length: int,
    target: Prefill,
  ) -> Cache:
    """Reads the inputs.

    Args:
      params: The drafter's parameters.
      inputs: As in `DecoderModel.prefill`.
      length: Likewise.
      target: What the target made of them, so that nothing need be computed
        twice.
    """
    ...

  def draft(
    self,
    params: Params,
    context: Context,
    cache: Cache,
    keys: Key[Array, "B"],
    sampler: Sampler,
    gamma: int,
  ) -> tuple[Draft, Cache]:
    """Guesses the `gamma` tokens that follow the context.

    Args:
      params: The drafter's parameters.
      context: What is committed so far.
      cache: From `prefill` or from the last round. Entries beyond
        `context.lengths` belong to rejected guesses.
      keys: A typed key per row, fresh in every round.
      sampler: Turns logits into the probabilities to draw from.
      gamma: How many tokens to guess, at least 1.
    """
    ...


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SpeculationStats:
  """What happened, counted per row; nothing is derived.

  Only what reached the output counts: guesses beyond an EOS or a budget, and
  rounds of rows that have ended, are in no counter but `drafted`, which is
  the work that the drafter did for live rows. So
  `emitted == accepted + corrected + bonus` and
  `examined == accepted + corrected`.

  Attributes:
    target_calls: int32[B], rounds, each one call of the target.
    drafted: int32[B], tokens guessed.
    examined: int32[B], guesses up to and with the first rejected one.
    accepted: int32[B], guesses kept.
    corrected: int32[B], tokens drawn from the residual after a rejection.
    bonus: int32[B], tokens drawn from the target after all guesses held.
    emitted: int32[B], tokens of the output, EOS included.
    accepted_histogram: int32[B, G + 1], rounds by the number of guesses kept.
    scored_histogram: int32[B, G + 1], rounds by the number of guesses that the
      target read, which is that of the row of the batch that had the most,
      or a little more (`Drafter.sizes`).
  """

  target_calls: Int[Array, "B"]
  drafted: Int[Array, "B"]
  examined: Int[Array, "B"]
  accepted: Int[Array, "B"]
  corrected: Int[Array, "B"]
  bonus: Int[Array, "B"]
  emitted: Int[Array, "B"]
  accepted_histogram: Int[Array, "B G1"]
  scored_histogram: Int[Array, "B G1"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GenerateOutput:
  """What decoding returns; with `num_decodes` > 1 each field is [B, N, ...].

  Attributes:
    tokens: int32[B, max_new_tokens], without the start token; the pad id
      follows EOS or the row's budget.
    lengths: int32[B], tokens emitted, EOS included.
    log_probs: float32[B], the sum over emitted tokens of the target's own log
      probability: of its logits as they are, before temperature, top-k and
      top-p, so that greedy decodes can be ranked too. NaN where the target's
      logits were not finite.
    stats: The counters.
  """

  tokens: Int[Array, "B L"]
  lengths: Int[Array, "B"]
  log_probs: Float[Array, "B"]
  stats: SpeculationStats
