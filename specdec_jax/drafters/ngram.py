"""n-gram tables as drafters: guesses at next to no cost (section 3.6).

A table is a model that sees one token back, or none, and keeps nothing between
two calls; so it drafts as any model does, at any temperature, top-k and top-p,
and the laws that it hands over are those that it was drawn from.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Array, Cache, Float, Int
from specdec_jax.base import Prefill
from specdec_jax.drafters.model import ModelDrafter


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NgramTable:
  """The laws of the next word after each word, with K exceptions a row.

  After word v, word w has the probability

      q(w | v) = (follower_probs[v, k] where followers[v, k] = w, else 0)
                 + backoff[v] * unigram[w],

  which sums to 1 over w. Of K = 0 followers it is a unigram.

  Attributes:
    unigram: float32[V], a law.
    followers: int32[V, K], words that are more likely after v than the
      unigram says, each once; rows with fewer end in word 0 at probability 0.
    follower_probs: float32[V, K], not negative.
    backoff: float32[V], 1 - the sum of `follower_probs[v]`.
  """

  unigram: Float[Array, "V"]
  followers: Int[Array, "V K"]
  follower_probs: Float[Array, "V K"]
  backoff: Float[Array, "V"]

  @property
  def vocab_size(self) -> int:
    """V, the number of words."""
    return self.unigram.shape[0]

  def laws(self, tokens: Int[Array, "B Q"]) -> Float[Array, "B Q V"]:
    """Returns the laws of the words that follow, float32[B, Q, V]."""
    laws = self.backoff[tokens][..., None] * self.unigram
    if not self.followers.shape[1]:
      return laws
    row = jnp.arange(tokens.shape[0])[:, None, None]
    column = jnp.arange(tokens.shape[1])[:, None]
    return laws.at[row, column, self.followers[tokens]].add(
      self.follower_probs[tokens]
    )


@dataclasses.dataclass(frozen=True)
class NgramModel:
  """An n-gram table behind the seam of a decoder; its parameters are one.

  Attributes:
    vocab_size: V, the target's.
  """

  vocab_size: int

  def prefill(
    self, params: NgramTable, inputs: Int[Array, "B S"], length: int
  ) -> Prefill:
    """Reads nothing; see `DecoderModel.prefill`.

    Raises:
      TypeError: If `params` is no table.
      ValueError: If it is one of another vocabulary.
    """
    del length
    if not isinstance(params, NgramTable):
      raise TypeError(
        "The n-gram drafter's parameters are no NgramTable; pass what"
        " sd.count_ngrams or sd.load_ngrams returned as draft_params."
      )
    if params.vocab_size != self.vocab_size:
      raise ValueError(
        f"The n-gram table has {params.vocab_size} words and its drafter"
        f" {self.vocab_size}; count the text with the target's vocabulary"
        " size and make the drafter with it too."
      )
    first = jnp.zeros((inputs.shape[0],), jnp.int32)
    return Prefill((), first, first)

  def extend(
    self,
    params: NgramTable,
    tokens: Int[Array, "B Q"],
    positions: Int[Array, "B"],
    cache: Cache,
  ) -> tuple[Float[Array, "B Q V"], Cache]:
    """Looks the tokens up; see `DecoderModel.extend`."""
    del positions
    return jnp.log(params.laws(tokens)), cache


def ngram_drafter(vocab_size: int) -> ModelDrafter:
  """Makes a drafter whose parameters are an `NgramTable`.

  Args:
    vocab_size: The target's vocabulary size, padding included; the table's
      must be the same. Whether it drafts from unigrams or bigrams is the
      table's affair.

  Raises:
    TypeError: If `vocab_size` is no integer.
    ValueError: If it is not positive.
  """
  if not isinstance(vocab_size, (int, np.integer)):
    raise TypeError(
      f"vocab_size is {type(vocab_size).__name__}; give the target's vocabulary"
      " size, an integer."
    )
  if vocab_size < 1:
    raise ValueError(
      f"vocab_size is {vocab_size}; give the target's vocabulary size."
    )
  return ModelDrafter(NgramModel(int(vocab_size)))
