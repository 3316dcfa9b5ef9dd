"""A pair whose guesses are kept at a chosen rate, whatever its weights are.

Random models agree on nothing, so their speculation would be of no use for a
timing. Here both compute all that they would, and then say something else: the
target one of two tokens at each place, chosen beforehand, with probability
alpha the first; the draft always the first. The rejection rule, which knows
nothing of it, then keeps each guess with probability alpha whatever came
before, as the paper's Equation 1 assumes. So nothing of the decoder is changed,
it is exact here too, at any temperature, and times are those of the real models
at that acceptance rate.

What is decoded so is no text, and alpha is an input: reports say SYNTHETIC.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

import specdec_jax as sd
from experiments.decoding.pair import Pair
from specdec_jax.array_typing import Array, Float, Int, Params

GUESS = 2
OTHER = 3
_NEVER = -1e9
_BASE = 2654435761


@dataclasses.dataclass(frozen=True)
class SyntheticModel:
  """A model that says `GUESS` or `OTHER`; parameters are from `with_rate`.

  Attributes:
    model: What computes, to no effect but the time that it takes.
  """

  model: sd.DecoderModel

  @property
  def vocab_size(self) -> int:
    """Width of the logits."""
    return self.model.vocab_size

  def with_rate(self, params: Params, rate: float) -> Params:
    """Returns parameters.

    Args:
      params: Those of `model`.
      rate: In how many places of all the token is `GUESS`.
    """
    return {"model": params, "rate": jnp.float32(rate)}

  def prefill(self, params, inputs, length):
    """See `DecoderModel.prefill`; texts differ in what they are answered."""
    start = self.model.prefill(params["model"], inputs, length)
    # A polynomial of the tokens: other inputs, another seed.
    factors = jnp.cumprod(jnp.full(inputs.shape[1], _BASE, jnp.uint32))
    seeds = jnp.sum(inputs.astype(jnp.uint32) * factors, axis=1)
    return start._replace(cache={"model": start.cache, "seeds": seeds})

  def extend(self, params, tokens, positions, cache):
    """See `DecoderModel.extend`."""
    logits, of_model = self.model.extend(
      params["model"], tokens, positions, cache["model"]
    )
    places = positions[:, None] + jnp.arange(tokens.shape[1])
    is_guess = _chance(cache["seeds"], places) < params["rate"]
    said = jax.nn.one_hot(
      jnp.where(is_guess, GUESS, OTHER), self.vocab_size, dtype=bool
    )
    logits = _nothing(logits) + jnp.where(said, 0.0, _NEVER)
    return logits, {"model": of_model, "seeds": cache["seeds"]}


def with_alpha(pair: Pair, alpha: float) -> Pair:
  """Returns a pair with the times of another one, and this acceptance rate.

  Args:
    pair: Who computes.
    alpha: How likely each guess is kept, in [0, 1].

  Raises:
    ValueError: If alpha is out of range, or there is no draft.
  """
  if not 0 <= alpha <= 1:
    raise ValueError(f"alpha is {alpha}; it is a probability, in [0, 1].")
  if pair.draft is None:
    raise ValueError("The pair has no draft; give one.")
  target, draft = SyntheticModel(pair.target), SyntheticModel(pair.draft)
  return dataclasses.replace(
    pair,
    target=target,
    target_params=target.with_rate(pair.target_params, alpha),
    draft=draft,
    draft_params=draft.with_rate(pair.draft_params, 1.0),
  )


def _chance(
  seeds: Int[Array, "B"], places: Int[Array, "B Q"]
) -> Float[Array, "B Q"]:
  """A number in [0, 1) for each place, the same in every call."""

  def one(seed: Any, place: Any) -> Any:
    key = jax.random.fold_in(jax.random.key(seed), place)
    return jax.random.uniform(key)

  return jax.vmap(jax.vmap(one, (None, 0)))(seeds, places)


def _nothing(logits: Float[Array, "B Q V"]) -> Float[Array, "B Q V"]:
  """Zeros that depend on the logits, so that no compiler drops these."""
  return jnp.minimum(jnp.abs(logits), 0.0)
