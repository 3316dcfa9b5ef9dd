"""The paper's alpha, computed from both laws instead of counted.

beta, how likely a draft's guess is kept after a prefix, is sum min(p, q)
(Theorem 3.5), and alpha is its mean. Over prefixes that the target generated
alpha needs no drafting, depends on no gamma, and has the noise of the prefixes
alone; `statistics.acceptance_rate` estimates it from what drafting did.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Array, Float, Int, Params
from specdec_jax.base import DecoderModel
from specdec_jax.config import SamplingConfig
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.sampling import Sampler, make_sampler


def acceptance_probabilities(
  inputs: Int[Array | np.ndarray, "B S"],
  tokens: Int[Array | np.ndarray, "B T"],
  *,
  target: DecoderModel,
  target_params: Params,
  drafter: ModelDrafter,
  draft_params: Params,
  sampling: SamplingConfig,
) -> Float[Array, "B T"]:
  """Returns beta in front of each token: the mass that the two laws share.

  Both models read the tokens in one call (teacher forcing), through the same
  functions as in decoding. At temperature 0 beta is 1 where their argmax is
  the same, and 0 elsewhere.

  Args:
    inputs: int32[B, S], padded with 0, as in `speculative_generate`.
    tokens: int32[B, T], what the target generated after them
      (`GenerateOutput.tokens`). What follows a row's end has no meaning, here
      and in the result.
    target: The target.
    target_params: Its parameters.
    drafter: A draft model, from `model_drafter`.
    draft_params: Its parameters.
    sampling: How both models' logits become laws.

  Raises:
    TypeError: If the drafter is not made of a model.
    ValueError: If the vocabularies' sizes differ, or the numbers of rows.
  """
  if not isinstance(drafter, ModelDrafter):
    raise TypeError(
      f"drafter is {type(drafter).__name__}; alpha needs a law for every"
      " prefix, which a model has: give sd.model_drafter(draft)."
    )
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
  return _betas(
    jnp.asarray(inputs),
    jnp.asarray(tokens),
    target_params,
    draft_params,
    make_sampler(sampling, len(inputs)),
    target=target,
    drafter=drafter,
  )


def mean_acceptance(
  betas: Float[Array | np.ndarray, "B T"], lengths: Int[Array | np.ndarray, "B"]
) -> float:
  """Returns alpha: the mean of beta over all tokens, each counting alike.

  Args:
    betas: From `acceptance_probabilities`.
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


@functools.partial(jax.jit, static_argnames=("target", "drafter"))
def _betas(
  inputs,
  tokens,
  target_params,
  draft_params,
  sampler: Sampler,
  *,
  target: DecoderModel,
  drafter: ModelDrafter,
):
  length = tokens.shape[1]
  start = target.prefill(target_params, inputs, length)
  fed = jnp.concatenate([start.token[:, None], tokens[:, :-1]], axis=1)
  logits, _ = target.extend(target_params, fed, start.position, start.cache)
  draft_logits, _ = drafter.score(
    draft_params,
    fed,
    start.position,
    drafter.prefill(draft_params, inputs, length),
  )
  return jnp.sum(
    jnp.minimum(sampler.probs(logits), sampler.probs(draft_logits)), axis=-1
  )
