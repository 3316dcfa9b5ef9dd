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
from specdec_jax.tree import Tree


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
class TreeModel(DecoderModel, Protocol):
  """A model that scores several drafts in one call, as a target must."""

  def extend_tree(
    self,
    params: Params,
    tokens: Int[Array, "B M"],
    positions: Int[Array, "B"],
    cache: Cache,
    tree: Tree,
  ) -> tuple[Float[Array, "B M V"], Cache]:
    """Scores the nodes of a tree, each after its own ancestors.

    Node i of row b has the position `positions[b]` and its depth, and sees
    its ancestors and what lies before `positions[b]`. Its cache entry goes to
    the slot `positions[b] + i`, whatever its depth, until `keep` moves it.

    Args:
      params: The model's parameters.
      tokens: int32[B, M], the root's first.
      positions: int32[B], each row's position of the root.
      cache: As in `DecoderModel.extend`.
      tree: Of M nodes.

    Returns:
      logits: float32[B, M, V]; row i is for the token after node i.
      cache: With the entries of all nodes.
    """
    ...

  def keep(
    self,
    cache: Cache,
    positions: Int[Array, "B"],
    nodes: Int[Array, "B G"],
  ) -> Cache:
    """Moves a draft's entries to where `extend` would have put them.

    Args:
      cache: From `extend_tree`.
      positions: As there.
      nodes: int32[B, G]: the entry of node `nodes[b, i]` goes to `positions[b]
        + 1 + i`. What the tree's other nodes left behind is stale.
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
  """

  tokens: Int[Array, "B G"]
  probs: Float[Array, "B G V"]
  lengths: Int[Array, "B"] | None = None

  @property
  def num_guesses(self) -> Int[Array, "B"]:
    """`lengths`, or G in every row, int32[B]."""
    if self.lengths is not None:
      return self.lengths
    batch, gamma = self.tokens.shape
    return jnp.full((batch,), gamma, jnp.int32)


@runtime_checkable
class Drafter(Protocol):
  """Anything that guesses the target's next tokens (paper, section 3.6)."""

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


@runtime_checkable
class TreeDrafter(Drafter, Protocol):
  """A drafter that guesses several times over, for a `TreeModel`.

  In what `draft` returns the G of `Draft` are the M - 1 guesses of a tree, in
  their order, each with the law that it was drawn from; none is filler.
  """

  @property
  def are_independent(self) -> bool:
    """Whether guesses with one parent, or with parents that are the same
    token, are independent draws from one law."""
    ...

  def tree(self, gamma: int) -> Tree:
    """How the guesses hang together.

    Args:
      gamma: As in `draft`, the most nodes of a path.
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
