"""What a draft is trained to make small: its distance from the target.

The divergences are those of DistillSpec (Zhou et al. 2023) and GKD (Agarwal et
al. 2023), and the negative log of the acceptance rate itself with its hybrid
(LK losses, 2026). With p the target's law of the next token and q the draft's,
both as they are decoded with, at one position:

| name         |                                                           |
|--------------|-----------------------------------------------------------|
| "forward_kl" | sum p log(p / q)                                          |
| "reverse_kl" | sum q log(q / p)                                          |
| "jsd"        | (KL(p, m) + KL(q, m)) / 2, where m = (p + q) / 2          |
| "tvd"        | sum abs(p - q) / 2 = 1 - beta                             |
| "alpha"      | -log beta                                                 |
| "hybrid"     | w KL(p, q) + (1 - w) tvd, where w = exp(-eta beta), fixed |

beta = sum min(p, q) is how likely a guess is kept, and its mean is the paper's
alpha. The total variation has next to no gradient where p and q hardly
overlap, as at the start from random values; "alpha" has the same direction,
divided by beta, and "hybrid" begins with the Kullback-Leibler divergence.
"""

import dataclasses
import math
import numbers
from collections.abc import Callable

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Bool, Float
from specdec_jax.config import SamplingConfig
from specdec_jax.sampling import argmax, make_sampler

LogLaw = Float[Array, "*batch V"]
"""Log probabilities; those of what cannot come are -inf."""

PerPosition = Float[Array, "*batch"]


def forward_kl(log_p: LogLaw, log_q: LogLaw) -> PerPosition:
  """KL(p, q); infinite where q rules out what p does not."""
  # Without the first `where` a zero of p would be 0 * inf; without the second
  # its gradient would.
  is_possible = log_p > -jnp.inf
  ratio = jnp.where(is_possible, log_p, 0.0) - jnp.where(
    is_possible, log_q, 0.0
  )
  return jnp.sum(jnp.exp(log_p) * ratio, axis=-1)


def reverse_kl(log_p: LogLaw, log_q: LogLaw) -> PerPosition:
  """KL(q, p); infinite where p rules out what q does not."""
  return forward_kl(log_q, log_p)


def jsd(log_p: LogLaw, log_q: LogLaw) -> PerPosition:
  """The Jensen-Shannon divergence with equal shares, at most log 2."""
  # A gradient of logaddexp(-inf, -inf) would be NaN.
  is_possible = jnp.maximum(log_p, log_q) > -jnp.inf
  log_m = jnp.logaddexp(
    jnp.where(is_possible, log_p, 0.0), jnp.where(is_possible, log_q, 0.0)
  ) - jnp.log(2.0)
  return (forward_kl(log_p, log_m) + forward_kl(log_q, log_m)) / 2


def tvd(log_p: LogLaw, log_q: LogLaw) -> PerPosition:
  """The total variation distance, the share of guesses that are rejected."""
  return jnp.sum(jnp.abs(jnp.exp(log_p) - jnp.exp(log_q)), axis=-1) / 2


def negative_log_alpha(log_p: LogLaw, log_q: LogLaw) -> PerPosition:
  """-log sum min(p, q), all in logarithms: no overlap is too small for it."""
  return -jax.nn.logsumexp(jnp.minimum(log_p, log_q), axis=-1)


def hybrid(log_p: LogLaw, log_q: LogLaw, *, eta: float = 3.0) -> PerPosition:
  """The Kullback-Leibler divergence first, the total variation later.

  Args:
    log_p: The target's.
    log_q: The draft's.
    eta: How fast the former's share exp(-eta beta) falls as beta rises.
  """
  distance = tvd(log_p, log_q)
  share = jax.lax.stop_gradient(jnp.exp(-eta * (1 - distance)))
  return share * forward_kl(log_p, log_q) + (1 - share) * distance


DIVERGENCES: dict[str, Callable[[LogLaw, LogLaw], PerPosition]] = {
  "forward_kl": forward_kl,
  "reverse_kl": reverse_kl,
  "jsd": jsd,
  "tvd": tvd,
  "alpha": negative_log_alpha,
  "hybrid": hybrid,
}
"""All of them, by name."""

_PLAIN = SamplingConfig()
# What stays finite where one law rules out what the other does not.
_BOUNDED = ("jsd", "tvd")


@dataclasses.dataclass(frozen=True)
class Divergence:
  """A divergence between laws that are made as decoding makes them.

  At temperature 0 p is the target's argmax. The draft's own argmax has no
  gradient, so q is its softmax at temperature 1 there: "forward_kl" and
  "alpha" are both the cross entropy of the target's choice, "tvd" is 1 less
  its probability.

  Top-k and top-p set probabilities to 0, other ones in p than in q. Only
  "jsd" and "tvd" are finite then.

  Attributes:
    kind: A name of `DIVERGENCES`.
    sampling: How the pair will decode; one temperature for all rows.
    eta: See `hybrid`; for that alone.
  """

  kind: str = "forward_kl"
  sampling: SamplingConfig = _PLAIN
  eta: float = 3.0

  def __post_init__(self):
    if self.kind not in DIVERGENCES:
      raise ValueError(
        f"Divergence.kind is {self.kind!r}; there are"
        f" {', '.join(map(repr, DIVERGENCES))}."
      )
    sampling = self.sampling
    if not isinstance(sampling, SamplingConfig):
      raise ValueError(
        f"Divergence.sampling is {sampling!r}; give a SamplingConfig."
      )
    if isinstance(sampling.temperature, tuple):
      raise ValueError(
        f"Divergence.sampling has temperatures {sampling.temperature}; give"
        " one number, the temperature that the pair will decode at."
      )
    if not (isinstance(self.eta, numbers.Real) and 0 <= self.eta < math.inf):
      raise ValueError(
        f"Divergence.eta is {self.eta!r}; it must be 0 or positive, and finite."
      )
    if sampling.greedy and self.kind == "reverse_kl":
      raise ValueError(
        "Divergence.kind is 'reverse_kl', which is infinite at temperature 0,"
        " where the target has only one token; use 'forward_kl', 'jsd', 'tvd',"
        " 'alpha' or 'hybrid', or a positive temperature."
      )
    # A temperature of 0 needs no filter: the argmax passes all of them.
    if _filters(sampling) and self.kind not in _BOUNDED:
      raise ValueError(
        f"Divergence.kind is {self.kind!r}, which is infinite where top_k ="
        f" {sampling.top_k} or top_p = {sampling.top_p} keeps a token in one"
        " law and not in the other; use 'jsd' or 'tvd', or train without"
        " filters (top_k=0, top_p=1.0) at the same temperature."
      )

  def log_laws(
    self, logits: Float[Array, "B T V"], target_logits: Float[Array, "B T V"]
  ) -> tuple[Float[Array, "B T V"], Float[Array, "B T V"]]:
    """Returns log p and log q; no gradient goes to the target.

    Args:
      logits: The draft's.
      target_logits: The target's.
    """
    target_logits = jax.lax.stop_gradient(target_logits)
    if self.sampling.greedy:
      is_choice = jax.nn.one_hot(
        argmax(target_logits), target_logits.shape[-1], dtype=bool
      )
      log_p = jnp.where(is_choice, 0.0, -jnp.inf)
      return log_p, jax.nn.log_softmax(logits.astype(jnp.float32))
    return (
      _log_probs(target_logits, self.sampling),
      _log_probs(logits, self.sampling),
    )

  def per_token(
    self, logits: Float[Array, "B T V"], target_logits: Float[Array, "B T V"]
  ) -> Float[Array, "B T"]:
    """Returns the divergence at each position.

    Args:
      logits: The draft's.
      target_logits: The target's.
    """
    laws = self.log_laws(logits, target_logits)
    if self.kind == "hybrid":
      return hybrid(*laws, eta=self.eta)
    return DIVERGENCES[self.kind](*laws)

  def __call__(
    self,
    logits: Float[Array, "B T V"],
    target_logits: Float[Array, "B T V"],
    mask: Bool[Array, "B T"],
  ) -> Float[Array, ""]:
    """Sums the divergence over the unmasked positions.

    Args:
      logits: The draft's.
      target_logits: The target's.
      mask: The positions that count.
    """
    # Zeros go in, not only out: an infinite term's gradient would stay NaN.
    logits = jnp.where(mask[..., None], logits, 0.0)
    target_logits = jnp.where(mask[..., None], target_logits, 0.0)
    divergence = self.per_token(logits, target_logits)
    return jnp.sum(jnp.where(mask, divergence, 0.0))

  def acceptance(
    self,
    logits: Float[Array, "B T V"],
    target_logits: Float[Array, "B T V"],
    mask: Bool[Array, "B T"],
  ) -> Float[Array, ""]:
    """Sums beta over the unmasked positions, as decoding will have it.

    At temperature 0 that is how often the two argmaxes agree.

    Args:
      logits: The draft's.
      target_logits: The target's.
      mask: The positions that count.
    """
    sampler = make_sampler(self.sampling, len(logits))
    laws = sampler.probs(target_logits), sampler.probs(logits)
    beta = jnp.sum(jnp.minimum(*laws), axis=-1)
    return jnp.sum(jnp.where(mask, beta, 0.0))


def _filters(sampling: SamplingConfig) -> bool:
  is_filtered = sampling.top_k > 0 or 0.0 < sampling.top_p < 1.0
  return is_filtered and not sampling.greedy


def _log_probs(
  logits: Float[Array, "B T V"], sampling: SamplingConfig
) -> Float[Array, "B T V"]:
  """The logarithm of `Sampler.probs`, without its underflow to 0."""
  logits = logits.astype(jnp.float32)
  # The largest becomes 0 first: a low temperature overflows no logit then.
  largest = jnp.max(logits, axis=-1, keepdims=True)
  temperature = jnp.float32(sampling.temperature)
  scaled = (logits - jax.lax.stop_gradient(largest)) / temperature
  if _filters(sampling):
    # Which tokens are kept is the sampler's decision, ties included.
    kept = make_sampler(sampling, len(logits)).probs(
      jax.lax.stop_gradient(logits)
    )
    scaled = jnp.where(kept > 0, scaled, -jnp.inf)
  return jax.nn.log_softmax(scaled)
