"""What two laws, the target's p and the draft's q, have in common.

At one place: beta, and the divergence it comes from (sections 3.2 and 3.3).
Over whole drafts: how long what a verification rule keeps is, with no
assumption on how places hang together.
"""

import numpy as np
from numpy.typing import ArrayLike

from specdec_jax.analysis.arguments import cost, rate
from specdec_jax.analysis.closed_forms import Result
from specdec_jax.array_typing import Array, Float

_SUM_TOLERANCE = 1e-3
"""How far from 1 a law may sum: float32 sums of a vocabulary are closer."""


def shared_mass(
  target_probs: ArrayLike, draft_probs: ArrayLike, lenience: ArrayLike = 1.0
) -> Result:
  """How likely a guess is kept: beta = sum min(p, q) (Theorem 3.5).

  Its mean over prefixes is alpha (Corollary 3.6); `acceptance_probabilities`
  computes it from two models, `mean_acceptance` takes the mean. With lenience
  l it is sum min(p / l, q) (appendix A.5), and decoding is no longer exact. At
  temperature 0 the paper's lenience is another rule, which compares p before
  the argmax.

  Args:
    target_probs: [..., V], p.
    draft_probs: [..., V], q.
    lenience: l in [0, 1], one for all laws or one for each. 1 is exact; 0
      keeps every token that the target can emit at all.

  Raises:
    ValueError: If these are not laws of one vocabulary, or l is out of range.
  """
  p, q = _laws(target_probs, draft_probs)
  lenience = rate("lenience", lenience)[..., None]
  # min(1, p / (l q)) of each token, without a division by 0.
  bar = np.maximum(p, lenience * q)
  kept = np.divide(p, bar, out=np.zeros(bar.shape), where=bar > 0)
  return np.sum(q * kept, axis=-1)


def lk_divergence(target_probs: ArrayLike, draft_probs: ArrayLike) -> Result:
  """D_LK = sum |p - (p + q) / 2|, the total variation (Definition 3.2).

  It is 1 - beta (Lemma 3.3), symmetric, 0 for equal laws and 1 for laws that
  share no token (Corollary 3.4).

  Args:
    target_probs: [..., V], p.
    draft_probs: [..., V], q.

  Raises:
    ValueError: If these are not laws of one vocabulary.
  """
  p, q = _laws(target_probs, draft_probs)
  return np.sum(np.abs(p - q), axis=-1) / 2


def token_verification_length(
  ratios: Float[Array | np.ndarray, "N G"], weights: ArrayLike | None = None
) -> float:
  """Tokens per round of Algorithm 1: Equation 1 without its assumption.

  That is 1 + the mean over drafts of the sum over i = 1 .. G of
  min(1, r_1) ... min(1, r_i).

  Args:
    ratios: [N, G], r = p(x) / q(x) of each token of N drafts drawn from q.
    weights: [N], how likely each draft is, if these are all that there are.
      Without it they count alike: the mean of a sample.

  Raises:
    ValueError: If there is no draft, or a number is out of range.
  """
  ratios = _ratios(ratios)
  kept = np.cumprod(np.minimum(1.0, ratios), axis=1)
  return _mean_length(kept, weights)


def block_verification_length(
  ratios: Float[Array | np.ndarray, "N G"], weights: ArrayLike | None = None
) -> float:
  """Tokens per round of block verification (Sun et al., 2024).

  That is 1 + the mean over drafts of P_1 + ... + P_G, where P_0 = 1 and
  P_i = min(1, P_(i - 1) r_i). It is never less than Algorithm 1's, and the
  same for one guess and at temperature 0.

  Args:
    ratios: As in `token_verification_length`.
    weights: As there.

  Raises:
    ValueError: If there is no draft, or a number is out of range.
  """
  ratios = _ratios(ratios)
  kept, last = np.empty(ratios.shape), np.ones(len(ratios))
  for i in range(ratios.shape[1]):
    kept[:, i] = last = np.minimum(1.0, last * ratios[:, i])
  return _mean_length(kept, weights)


def _ratios(value) -> np.ndarray:
  ratios = cost("ratios", value)
  if ratios.ndim != 2 or not len(ratios):
    raise ValueError(
      f"ratios has shape {ratios.shape}; it must be [N, G], with at least one"
      " draft."
    )
  return ratios


def _mean_length(kept: np.ndarray, weights) -> float:
  if weights is not None:
    weights = cost("weights", weights)
    if weights.shape != kept.shape[:1] or not weights.sum():
      raise ValueError(
        f"weights has shape {weights.shape} and sum {weights.sum():g}; give one"
        f" for each of the {len(kept)} drafts, not all of them 0."
      )
  return float(1 + np.average(kept.sum(axis=1), weights=weights))


def _laws(target_probs, draft_probs) -> tuple[np.ndarray, np.ndarray]:
  laws = {
    "target_probs": rate("target_probs", target_probs),
    "draft_probs": rate("draft_probs", draft_probs),
  }
  p, q = laws.values()
  if not p.ndim or p.shape[-1:] != q.shape[-1:]:
    raise ValueError(
      f"target_probs has shape {p.shape} and draft_probs {q.shape}; both must"
      " be [..., V], with the same V."
    )
  for name, law in laws.items():
    sums = np.sum(law, axis=-1)
    off = np.abs(sums - 1)
    if np.any(off > _SUM_TOLERANCE):
      raise ValueError(
        f"{name} sums to {sums.flat[np.argmax(off)]:g}; each law must sum to 1."
      )
  return p, q
