"""The paper's alpha, computed from both laws instead of counted.

beta, how likely a draft's guess is kept after a prefix, is sum min(p, q)
(Theorem 3.5), and alpha is its mean. Over prefixes that the target generated
alpha needs no drafting, depends on no gamma, and has the noise of the prefixes
alone; `statistics.acceptance_rate` estimates it from what drafting did. With
lenience l beta is sum min(p / l, q) (appendix A.5).
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Array, Float, Int, Params
from specdec_jax.base import DecoderModel
from specdec_jax.config import MIN_TEMPERATURE, SamplingConfig, check_lenience
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.sampling import Sampler, argmax, make_sampler
from specdec_jax.verification import is_near_best


def acceptance_probabilities(
  inputs: Int[Array | np.ndarray, "B S"],
  tokens: Int[Array | np.ndarray, "B T"],
  *,
  target: DecoderModel,
  target_params: Params,
  drafter: ModelDrafter,
  draft_params: Params,
  sampling: SamplingConfig,
  lenience: float | Sequence[float] = 1.0,
) -> Float[Array, "*several B T"]:
  """Returns beta in front of each token: the mass that the two laws share.

  Both models read the tokens in one call (teacher forcing), through the same
  functions as in decoding. At temperature 0 beta is 1 where their argmax is
  the same, and 0 elsewhere; with lenience it is 1 also where the target finds
  the draft's argmax nearly as likely as its own.

  Args:
    inputs: int32[B, S], padded with 0, as in `speculative_generate`.
    tokens: int32[B, T], what the target generated after them
      (`GenerateOutput.tokens`). What follows a row's end has no meaning, here
      and in the result.
    target: The target.
    target_params: Its parameters.
    drafter: A draft model or an n-gram table, from `model_drafter` or
      `ngram_drafter`.
    draft_params: Its parameters.
    sampling: How both models' logits become laws.
    lenience: As in `SpeculativeConfig`; 1 is exact. Of several the result has
      one more dimension, the first.

  Raises:
    TypeError: If the drafter is not made of a model or a table.
    ValueError: If the vocabularies' sizes differ, or the numbers of rows, or
      a lenience is not in [0, 1].
  """
  if not isinstance(drafter, ModelDrafter):
    raise TypeError(
      f"drafter is {type(drafter).__name__}; alpha needs a law for every"
      " prefix, which models and n-gram tables have: give"
      " sd.model_drafter(draft) or sd.ngram_drafter(vocab_size)."
    )
  leniences = lenience if isinstance(lenience, Sequence) else (lenience,)
  if drafter.vocab_size != target.vocab_size:
    raise ValueError(
      f"The drafter's vocabulary has {drafter.vocab_size} entries and the"
      f" target's {target.vocab_size}. If they share one tokenizer and differ"
      " in padding alone, say so with"
      f" sd.model_drafter(draft, vocab_size={target.vocab_size})."
    )
  if len(inputs) != len(tokens):
    raise ValueError(
      f"There are {len(inputs)} rows of inputs and {len(tokens)} of tokens;"
      " give the tokens that the target generated from these inputs."
    )
  betas = _betas(
    jnp.asarray(inputs),
    jnp.asarray(tokens),
    target_params,
    draft_params,
    make_sampler(sampling, len(inputs)),
    target=target,
    drafter=drafter,
    leniences=tuple(map(check_lenience, leniences)),
  )
  return betas if leniences is lenience else betas[0]


def mean_acceptance(
  betas: Float[Array | np.ndarray, "B T"], lengths: Int[Array | np.ndarray, "B"]
) -> float:
  """Returns alpha: the mean of beta over all tokens, each counting alike.

  Args:
    betas: From `acceptance_probabilities`, of one lenience.
    lengths: How many tokens of each row count (`GenerateOutput.lengths`).

  Raises:
    ValueError: If no token counts.
  """
  sums, counts = row_sums(betas, lengths)
  if not counts.sum():
    raise ValueError("lengths are all 0; give at least one token.")
  return float(sums.sum() / counts.sum())


def row_sums(
  betas: Float[Array | np.ndarray, "B T"], lengths: Int[Array | np.ndarray, "B"]
) -> tuple[Float[np.ndarray, "B"], Int[np.ndarray, "B"]]:
  """Returns each row's sum of beta, in float64, and its number of tokens.

  Args:
    betas: From `acceptance_probabilities`.
    lengths: How many tokens of each row count.
  """
  betas, lengths = np.asarray(betas, np.float64), np.asarray(lengths)
  counts = np.arange(betas.shape[1]) < lengths[:, None]
  return np.where(counts, betas, 0.0).sum(axis=1), counts.sum(axis=1)


@functools.partial(jax.jit, static_argnames=("target", "drafter", "leniences"))
def _betas(
  inputs,
  tokens,
  target_params,
  draft_params,
  sampler: Sampler,
  *,
  target: DecoderModel,
  drafter: ModelDrafter,
  leniences: tuple[float, ...],
):
  length = tokens.shape[1]
  start = target.prefill(target_params, inputs, length)
  fed = jnp.concatenate([start.token[:, None], tokens[:, :-1]], axis=1)
  logits, _ = target.extend(target_params, fed, start.position, start.cache)
  draft_logits, _ = drafter.score(
    draft_params,
    fed,
    start.position,
    drafter.prefill(draft_params, inputs, length, start),
  )
  p, q = sampler.probs(logits), sampler.probs(draft_logits)
  is_greedy = sampler.temperature <= MIN_TEMPERATURE

  def beta(lenience):
    # Of p = 0 nothing is kept, even if lenience is 0.
    kept = jnp.where(p == 0, 0.0, jnp.minimum(p / lenience, q))
    kept = jnp.sum(kept, axis=-1)
    if lenience == 1:
      return kept
    # As in decoding, a greedy guess is held to the target's logits instead.
    guess = argmax(draft_logits)
    return jnp.where(
      is_near_best(guess, logits, is_greedy, lenience), 1.0, kept
    )

  return jnp.stack([beta(each) for each in leniences])
