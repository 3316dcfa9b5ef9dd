"""Logits -> probabilities -> token, one way for everybody.

"Standardised sampling" (paper, section 2.2): temperature, top-k, top-p and
the argmax are folded into the distribution first, after which drawing is
plain categorical sampling. Target, draft and baseline go through the same
functions, so there is one verification rule and no greedy branch in it:
greedy decoding is sampling from a one-hot distribution.

Tokens are drawn by inverting the cumulative distribution at one uniform
number per row. That costs one random number where the Gumbel trick costs a
vocabulary of them, and it works on unnormalised weights, which is what a
residual is.
"""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Bool, Float, Int
from specdec_jax.config import MIN_TEMPERATURE, SamplingConfig

_BLOCK = 128  # Vocabulary entries summed before the cumulative sum.


def token_log_probs(
  logits: Float[Array, "B Q V"], tokens: Int[Array, "B Q"]
) -> Float[Array, "B Q"]:
  """The log probabilities of tokens under logits as they are, at T = 1."""
  chosen = jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
  return chosen - jax.nn.logsumexp(logits, axis=-1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sampler:
  """A `SamplingConfig` on a batch: temperatures are data, the rest is static.

  Attributes:
    temperature: float32[B].
    top_k: As in `SamplingConfig`.
    top_p: As in `SamplingConfig`.
    greedy: True if all temperatures are known to be zero; leaves the softmax
      out of the program.
  """

  temperature: Float[Array, "B"]
  top_k: int = dataclasses.field(metadata={"static": True})
  top_p: float = dataclasses.field(metadata={"static": True})
  greedy: bool = dataclasses.field(metadata={"static": True})

  def probs(self, logits: Float[Array, "B Q V"]) -> Float[Array, "B Q V"]:
    """Standardises logits into the probabilities to draw from.

    Args:
      logits: float[B, Q, V].

    Returns:
      float32[B, Q, V]: softmax(logits / temperature), reduced to the top-k
      and then to the top-p of what is left; the one-hot argmax, lowest id
      first, in rows whose temperature is at most `MIN_TEMPERATURE`.
    """
    logits = logits.astype(jnp.float32)
    most_likely = jax.nn.one_hot(argmax(logits), logits.shape[-1])
    if self.greedy:
      return most_likely
    temperature = self.temperature[:, None, None]
    is_greedy = temperature <= MIN_TEMPERATURE
    # The largest becomes 0 first: a low temperature overflows no logit then.
    logits -= jnp.max(logits, axis=-1, keepdims=True)
    probs = jax.nn.softmax(
      logits / jnp.where(is_greedy, 1.0, temperature), axis=-1
    )
    if 0 < self.top_k < logits.shape[-1]:
      probs = _keep(probs, probs >= _kth_largest(probs, self.top_k))
    if 0.0 < self.top_p < 1.0:
      probs = _keep(probs, probs >= _nucleus_edge(probs, self.top_p))
    return jnp.where(is_greedy, most_likely, probs)

  def draw(
    self, uniform: Float[Array, "B"], logits: Float[Array, "B 1 V"]
  ) -> tuple[Int[Array, "B"], Float[Array, "B V"]]:
    """Draws a token a row, and returns the law it was drawn from.

    Args:
      uniform: float32[B] in [0, 1), one independent number per row.
      logits: float[B, 1, V].

    Returns:
      int32[B] and float32[B, V].
    """
    probs = self.probs(logits)[:, 0]
    if self.greedy:
      return argmax(logits)[:, 0], probs
    return sample(uniform, probs), probs


def make_sampler(config: SamplingConfig, batch: int) -> Sampler:
  """Returns the sampler of a batch.

  Args:
    config: How logits become probabilities; its temperatures, if there are
      several, are those of the rows.
    batch: The number of rows.

  Raises:
    ValueError: If there is not one temperature, or one per row.
  """
  temperature = jnp.asarray(config.temperature, jnp.float32)
  if temperature.ndim and temperature.shape != (batch,):
    raise ValueError(
      f"temperature has {temperature.shape[0]} entries for a batch of {batch}"
      " rows; give one number, or one per row."
    )
  return Sampler(
    jnp.broadcast_to(temperature, (batch,)),
    config.top_k,
    config.top_p,
    config.greedy,
  )


def argmax(values: Float[Array, "*batch V"]) -> Int[Array, "*batch"]:
  """int32 index of the largest value, the lowest on ties.

  A maximum and a minimum, which XLA vectorises; its own argmax it does not.
  """
  size = values.shape[-1]
  index = jax.lax.broadcasted_iota(jnp.int32, values.shape, values.ndim - 1)
  is_max = values == jnp.max(values, axis=-1, keepdims=True)
  # Without a maximum (NaN) there is no hit: stay inside the vocabulary.
  first = jnp.min(jnp.where(is_max, index, size), axis=-1)
  return jnp.minimum(first, size - 1)


def sample(
  uniform: Float[Array, "B"], weights: Float[Array, "B V"]
) -> Int[Array, "B"]:
  """Draws from unnormalised weights by inverting their cumulative sum.

  Never returns an entry of weight zero, unless all of a row's are.

  Args:
    uniform: float32[B] in [0, 1), one independent number per row.
    weights: float32[B, V], not negative.

  Returns:
    int32[B], entry v with probability weights[v] / sum(weights).
  """
  batch, size = weights.shape
  blocks = jnp.pad(weights, ((0, 0), (0, -size % _BLOCK)))
  blocks = blocks.reshape(batch, -1, _BLOCK)
  sums = jnp.sum(blocks, axis=-1)
  ends = jnp.cumsum(sums, axis=-1)
  goal = uniform[:, None] * ends[:, -1:]
  block = _crossing(sums, ends, goal)[:, None]
  row = jnp.take_along_axis(blocks, block[..., None], axis=1)[:, 0]
  starts = jnp.pad(ends, ((0, 0), (1, 0)))[:, :-1]
  start = jnp.take_along_axis(starts, block, axis=1)
  inside = _crossing(row, start + jnp.cumsum(row, axis=-1), goal)
  return jnp.minimum(block[:, 0] * _BLOCK + inside, size - 1)


def _crossing(
  weights: Float[Array, "B W"],
  ends: Float[Array, "B W"],
  goal: Float[Array, "B 1"],
) -> Int[Array, "B"]:
  """The first entry with weight that ends beyond the goal, or the last.

  Entries without weight are left out by name: a parallel cumulative sum adds
  in an order of its own, and its rounding can step up, or down, at a zero.
  """
  index = jax.lax.broadcasted_iota(jnp.int32, weights.shape, 1)
  has_weight = weights > 0
  last = jnp.max(jnp.where(has_weight, index, 0), axis=1, keepdims=True)
  crosses = has_weight & (ends > goal)
  return jnp.min(jnp.where(crosses, index, last), axis=1)


def _keep(
  probs: Float[Array, "B Q V"], kept: Bool[Array, "B Q V"]
) -> Float[Array, "B Q V"]:
  probs = jnp.where(kept, probs, 0.0)
  return probs / jnp.sum(probs, axis=-1, keepdims=True)


def _kth_largest(probs: Float[Array, "B Q V"], k: int) -> Float[Array, "B Q 1"]:
  return jax.lax.top_k(probs, k)[0][..., -1:]


def _nucleus_edge(
  probs: Float[Array, "B Q V"], top_p: float
) -> Float[Array, "B Q 1"]:
  """The smallest probability inside the nucleus."""
  descending = jnp.sort(probs, axis=-1, descending=True)
  before = jnp.cumsum(descending, axis=-1) - descending
  inside = jnp.where(before < top_p, descending, jnp.inf)
  return jnp.min(inside, axis=-1, keepdims=True)
