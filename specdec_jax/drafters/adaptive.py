"""A model that guesses further only while it is sure of itself.

After some guesses it stops, unless it finds all of them likely together: the
product of the probabilities that it gave them is at least `confidence`. So
where it is unsure no calls are spent on guesses that would be thrown away, and
where it is sure a round yields more. Rows decide for themselves; the target
reads as many guesses as the row that went farthest has, rounded up to the next
stop, so that a program has a target call for each stop and no more.

The law of the output stays the target's: whether a row goes on depends on
guesses that are verified, the last one included, and on nothing after them.
(Dropping the guess that made it unsure would not be exact.)
"""

import dataclasses
import itertools

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Cache, Float, Key, Params
from specdec_jax.base import Context, DecoderModel, Draft
from specdec_jax.drafters.model import Made, ModelDrafter, model_drafter
from specdec_jax.keys import uniform_rows
from specdec_jax.sampling import Sampler, token_log_probs


@dataclasses.dataclass(frozen=True)
class AdaptiveDrafter(ModelDrafter):
  """A `ModelDrafter` that may stop before gamma.

  Attributes:
    stops: After how many guesses, ascending; so it does at gamma.
    confidence: The least probability of all guesses so far to go on with.
  """

  stops: tuple[int, ...] = ()
  confidence: float = 0.0

  def sizes(self, gamma: int) -> tuple[int, ...]:
    """The stops before gamma, and gamma; see `Drafter.sizes`."""
    return *(each for each in self.stops if each < gamma), gamma

  def draft(
    self,
    params: Params,
    context: Context,
    cache: Cache,
    keys: Key[Array, "B"],
    sampler: Sampler,
    gamma: int,
  ) -> tuple[Draft, Cache]:
    """Guesses up to `gamma` tokens; see `Drafter.draft`."""
    uniform = uniform_rows(keys, gamma).swapaxes(0, 1)
    guesses, first = self.begin(params, context, cache, sampler, uniform)
    tokens, laws = [first.tokens], [first.probs]
    log_confidence = _log_confidence(first)
    goes_on = jnp.ones(guesses.token.shape, bool)
    if context.is_done is not None:
      goes_on = ~context.is_done
    lengths = jnp.ones_like(guesses.token)

    # The first guess is made already.
    for num_made, size in itertools.pairwise((1, *self.sizes(gamma))):
      if num_made in self.stops:
        goes_on &= log_confidence >= jnp.log(self.confidence)

      def more(guesses, drawn=uniform[num_made:size]):
        guesses, made = self.go_on(params, guesses, sampler, drawn)
        return guesses, made.tokens, made.probs, _log_confidence(made)

      def no_more(guesses, count=size - num_made):
        batch = guesses.token.shape[0]
        return (
          guesses,
          jnp.zeros((batch, count), jnp.int32),
          jnp.zeros((batch, count, self.vocab_size), jnp.float32),
          jnp.zeros((batch,), jnp.float32),
        )

      guesses, *others = jax.lax.cond(jnp.any(goes_on), more, no_more, guesses)
      tokens.append(others[0])
      laws.append(others[1])
      log_confidence += others[2]
      lengths = jnp.where(goes_on, size, lengths)

    draft = Draft(
      jnp.concatenate(tokens, axis=1), jnp.concatenate(laws, axis=1), lengths
    )
    return draft, guesses.cache


def _log_confidence(made: Made) -> Float[Array, "B"]:
  """The log probability that a model gave its guesses, at temperature 1."""
  return jnp.sum(token_log_probs(made.logits, made.tokens), axis=1)


def adaptive_drafter(
  model: DecoderModel,
  *,
  stops: tuple[int, ...],
  confidence: float,
  vocab_size: int | None = None,
) -> AdaptiveDrafter:
  """Makes a drafter of a model that stops where it is unsure.

  Args:
    model: The draft model.
    stops: After how many guesses it may, ascending. Gamma is the last stop;
      those beyond it are never reached.
    confidence: It goes on beyond a stop while the product of the probabilities
      that it gave its guesses, at temperature 1, is at least this; 0 never
      stops.
    vocab_size: See `model_drafter`.

  Raises:
    TypeError: If `model` is no `DecoderModel`.
    ValueError: If the stops do not ascend from 1, or `confidence` is not in
      [0, 1].
  """
  stops = tuple(stops)
  if (
    not stops
    or list(stops) != sorted(set(stops))
    or not all(isinstance(each, int) and each > 0 for each in stops)
  ):
    raise ValueError(
      f"stops is {stops}; give one or more numbers of guesses, ascending from"
      " 1."
    )
  if not 0 <= confidence <= 1:
    raise ValueError(
      f"confidence is {confidence}; it is a probability, from 0 to 1."
    )
  plain = model_drafter(model, vocab_size=vocab_size)
  return AdaptiveDrafter(
    plain.model, plain.width, stops=stops, confidence=float(confidence)
  )
