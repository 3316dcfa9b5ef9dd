"""A smaller model as the drafter: the paper's own choice (section 3.6).

After a fully accepted block the draft's cache lacks the last guess, which was
drawn but never fed. The gap is closed by feeding the last *two* committed
tokens in each round's first call: where nothing was missing, the first of
them overwrites its own entry. The alternative is a (gamma + 1)-th call whose
logits nobody reads. A draft without a cache, such as an n-gram table, has no
gap and is fed the last token alone. Where another drafter's guesses may have
been committed, all of the last round's tokens are fed.

An encoder-decoder's draft may share the target's encoder (`shares_encoder` of
`t5.T5Model`): it attends to what that returned, and encodes nothing itself.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Cache, Float, Int, Key, Params
from specdec_jax.base import Context, DecoderModel, Draft, Prefill
from specdec_jax.keys import uniform_rows
from specdec_jax.sampling import Sampler


class Guesses(NamedTuple):
  """Where guessing stands.

  Attributes:
    token: int32[B], the last guess, which has not been fed.
    position: int32[B], where it goes in.
    cache: The model's.
  """

  token: Int[Array, "B"]
  position: Int[Array, "B"]
  cache: Cache


class Made(NamedTuple):
  """Some guesses.

  Attributes:
    tokens: int32[B, G].
    probs: float32[B, G, V], the laws that they were drawn from.
    logits: float32[B, G, V], what those laws were made of.
  """

  tokens: Int[Array, "B G"]
  probs: Float[Array, "B G V"]
  logits: Float[Array, "B G V"]


@dataclasses.dataclass(frozen=True)
class ModelDrafter:
  """Draws guesses from a model, one after the other.

  Attributes:
    model: The draft model.
    width: Width of the target's logits, if it differs from the model's own by
      padding alone; the model's logits are padded or cut to it.
    rereads: Whether tokens may be committed that the model did not guess.
  """

  model: DecoderModel
  width: int | None = None
  rereads: bool = False

  @property
  def vocab_size(self) -> int:
    """Width of the guesses' laws."""
    return self.width or self.model.vocab_size

  def sizes(self, gamma: int) -> tuple[int, ...]:
    """Always gamma; see `Drafter.sizes`."""
    return (gamma,)

  def prefill(
    self,
    params: Params,
    inputs: Int[Array, "B S"],
    length: int,
    target: Prefill,
  ) -> Cache:
    """Reads the inputs, or what the target's encoder made of them.

    Raises:
      ValueError: If the model shares its target's encoder, and the target has
        none, or one of another width.
    """
    # Few models can share, so it is no part of `DecoderModel`.
    model: Any = self.model
    if not getattr(model, "shares_encoder", False):
      return model.prefill(params, inputs, length).cache
    return model.prefill_encoded(params, target.encoded, inputs, length).cache

  def draft(
    self,
    params: Params,
    context: Context,
    cache: Cache,
    keys: Key[Array, "B"],
    sampler: Sampler,
    gamma: int,
  ) -> tuple[Draft, Cache]:
    """Guesses in a scan of `gamma` calls; see `Drafter.draft`."""
    uniform = uniform_rows(keys, gamma).swapaxes(0, 1)
    guesses, first = self.begin(params, context, cache, sampler, uniform)
    guesses, others = self.go_on(params, guesses, sampler, uniform[1:])
    return (
      Draft(
        jnp.concatenate([first.tokens, others.tokens], axis=1),
        jnp.concatenate([first.probs, others.probs], axis=1),
      ),
      guesses.cache,
    )

  def begin(
    self,
    params: Params,
    context: Context,
    cache: Cache,
    sampler: Sampler,
    uniform: Float[Array, "G B"],
  ) -> tuple[Guesses, Made]:
    """Feeds what the cache lacks, and makes the first of the round's guesses.

    Returns:
      What to go on from, and the guess.
    """
    gamma = len(uniform)
    # In the first round there is one committed token: what is fed beyond it is
    # filler, whose entries later calls overwrite.
    fed = (gamma + 1 if self.rereads else 2) if jax.tree.leaves(cache) else 1
    start = jnp.maximum(context.lengths - fed, 0)
    tokens = jnp.take_along_axis(
      context.tokens, start[:, None] + jnp.arange(fed), axis=1, mode="clip"
    )
    logits, cache = self.score(params, tokens, context.position + start, cache)
    last = (context.lengths - 1 - start)[:, None, None]
    logits = jnp.take_along_axis(logits, last, axis=1)
    token, probs = sampler.draw(uniform[0], logits)
    return (
      Guesses(token, context.position + context.lengths, cache),
      Made(token[:, None], probs[:, None], logits),
    )

  def go_on(
    self,
    params: Params,
    guesses: Guesses,
    sampler: Sampler,
    uniform: Float[Array, "G B"],
  ) -> tuple[Guesses, Made]:
    """Guesses a token per row of `uniform`, after those that there are.

    Returns:
      What to go on from, and the guesses.
    """

    def step(guesses, uniform):
      logits, cache = self.score(
        params, guesses.token[:, None], guesses.position, guesses.cache
      )
      token, probs = sampler.draw(uniform, logits)
      guesses = Guesses(token, guesses.position + 1, cache)
      return guesses, Made(token, probs, logits[:, 0])

    guesses, made = jax.lax.scan(step, guesses, uniform)
    return guesses, jax.tree.map(lambda x: x.swapaxes(0, 1), made)

  def score(
    self,
    params: Params,
    tokens: Int[Array, "B Q"],
    positions: Int[Array, "B"],
    cache: Cache,
  ) -> tuple[Float[Array, "B Q V"], Cache]:
    """Returns the model's `extend`, in the target's width."""
    # An id that only the wider target knows (padding, in effect) is fed as
    # the model's last one: a guess may rest on anything.
    tokens = jnp.minimum(tokens, self.model.vocab_size - 1)
    logits, cache = self.model.extend(params, tokens, positions, cache)
    missing = self.vocab_size - self.model.vocab_size
    if missing > 0:
      logits = jnp.pad(
        logits, ((0, 0), (0, 0), (0, missing)), constant_values=-jnp.inf
      )
    return logits[..., : self.vocab_size], cache


def model_drafter(
  model: DecoderModel, *, vocab_size: int | None = None
) -> ModelDrafter:
  """Makes a drafter of a model.

  Args:
    model: The draft model.
    vocab_size: The target's vocabulary size, where both models share one
      tokenizer and differ in padding alone. Without it a draft whose
      vocabulary is not as large as the target's is refused.

  Raises:
    ValueError: If `vocab_size` is not positive.
    TypeError: If `model` has not the two functions of a `DecoderModel`.
  """
  if not isinstance(model, DecoderModel):
    raise TypeError(
      f"model is {type(model).__name__}; give a DecoderModel, which has"
      " vocab_size, prefill and extend."
    )
  if vocab_size is not None and vocab_size < 1:
    raise ValueError(
      f"vocab_size is {vocab_size}; give the target's vocabulary size."
    )
  return ModelDrafter(model, vocab_size)
