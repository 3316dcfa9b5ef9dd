"""Which guesses survive, and the token after them (paper, Algorithm 1).

Pure functions of arrays. Guess x_i, drawn from q_i, is kept with probability
min(1, p_i(x_i) / q_i(x_i)); at the first one that is not, the round's last
token is drawn from the residual norm(max(0, p - q)), and if all hold from the
target's next distribution. Together this is a draw from p (appendix A.1).

Block verification (Sun et al., 2024) is as exact, from the same laws: it
judges each prefix of the guesses by all of its ratios together and keeps the
longest that passes, so that likely guesses make up for unlikely ones. In
expectation it keeps at least as many; the same at temperature 0 and for one
guess.

Lenience below 1 (appendix A.5), off by default, keeps more guesses than that,
and the outcome is no longer a draw from p: it is LOSSY.
"""

from typing import NamedTuple

import jax.numpy as jnp

from specdec_jax.array_typing import Array, Bool, Float, Int, Key
from specdec_jax.config import check_lenience, check_rule
from specdec_jax.keys import row_keys, uniform_rows
from specdec_jax.sampling import sample


class Verification(NamedTuple):
  """The outcome of a round.

  Attributes:
    num_accepted: int32[B], how many guesses hold, 0 to G.
    next_token: int32[B], the corrected or the bonus token that follows them.
  """

  num_accepted: Int[Array, "B"]
  next_token: Int[Array, "B"]


def verify(
  key: Key[Array, ""] | Key[Array, "B"],
  draft_tokens: Int[Array, "B G"],
  draft_probs: Float[Array, "B G V"],
  target_probs: Float[Array, "B G1 V"],
  draft_lengths: Int[Array, "B"] | None = None,
  lenience: float = 1.0,
  near_best: Bool[Array, "B G"] | None = None,
  rule: str = "token",
) -> Verification:
  """Applies a rule with fresh randomness.

  Args:
    key: A typed key, or one per row.
    draft_tokens: int32[B, G], the guesses.
    draft_probs: float32[B, G, V], the laws that the guesses were drawn from.
    target_probs: float32[B, G + 1, V], the target's laws at the same places
      and at the one after.
    draft_lengths: int32[B], how many of a row's tokens are guesses; all
      without it.
    lenience: As in `SpeculativeConfig`; lossy below 1.
    near_best: bool[B, G], from `is_near_best`: guesses that pass whatever
      their law is; lossy.
    rule: As `SpeculativeConfig.verification`; "block" knows no lenience.

  Returns:
    The outcome. Without lenience, `draft_tokens[b, :num_accepted[b]]` followed
    by `next_token[b]` is distributed as the target's own samples.

  Raises:
    ValueError: If the shapes do not belong together, lenience is not in
      [0, 1], or there is no such rule.
  """
  _check(draft_tokens, draft_probs, target_probs, draft_lengths, near_best)
  lenience = check_lenience(lenience)
  check_rule(rule, lenience)
  batch, gamma = draft_tokens.shape
  uniform = uniform_rows(row_keys(key, batch), gamma + 1)
  arguments = (
    uniform[:, :gamma],
    uniform[:, gamma],
    draft_tokens,
    draft_probs,
    target_probs,
    draft_lengths,
  )
  if rule == "block":
    return apply_block_rule(*arguments)
  return apply_rule(*arguments, lenience, near_best)


def apply_rule(
  accept_uniform: Float[Array, "B G"],
  next_uniform: Float[Array, "B"],
  draft_tokens: Int[Array, "B G"],
  draft_probs: Float[Array, "B G V"],
  target_probs: Float[Array, "B G1 V"],
  draft_lengths: Int[Array, "B"] | None = None,
  lenience: float = 1.0,
  near_best: Bool[Array, "B G"] | None = None,
) -> Verification:
  """Algorithm 1's rule as a deterministic function of its random numbers.

  Args:
    accept_uniform: float32[B, G] in [0, 1), one per guess.
    next_uniform: float32[B] in [0, 1), for the token after them.
    draft_tokens: As in `verify`.
    draft_probs: As in `verify`.
    target_probs: As in `verify`.
    draft_lengths: As in `verify`.
    lenience: As in `verify`.
    near_best: As in `verify`.

  Returns:
    The outcome.
  """
  gamma = draft_tokens.shape[1]
  p = _chosen(target_probs[:, :gamma], draft_tokens)
  q = _chosen(draft_probs, draft_tokens)
  if lenience < 1:
    q = lenience * q
  # Strict, and without a division: u can be 0, and a token that the target
  # never emits must not pass then.
  accepted = accept_uniform * q < p
  if near_best is not None:
    accepted |= near_best
  # Beyond a row's last guess there is no q: the zero row makes the residual p
  # itself, so that bonus and corrected token are one expression.
  if draft_lengths is not None:
    is_guess = jnp.arange(gamma) < draft_lengths[:, None]
    accepted &= is_guess
    draft_probs = jnp.where(is_guess[..., None], draft_probs, 0.0)
  draft_probs = jnp.pad(draft_probs, ((0, 0), (0, 1), (0, 0)))
  num_accepted = jnp.sum(
    jnp.cumprod(accepted.astype(jnp.int32), axis=1), axis=1
  )
  return _verdict(num_accepted, next_uniform, target_probs, draft_probs)


def apply_block_rule(
  accept_uniform: Float[Array, "B G"],
  next_uniform: Float[Array, "B"],
  draft_tokens: Int[Array, "B G"],
  draft_probs: Float[Array, "B G V"],
  target_probs: Float[Array, "B G1 V"],
  draft_lengths: Int[Array, "B"] | None = None,
) -> Verification:
  """Block verification as a deterministic function of its random numbers.

  With P_0 = 1 and P_i = min(1, P_{i-1} p_i(x_i) / q_i(x_i)), the prefix of i
  guesses passes, whether others do or not, with probability

      h_i = A / (A + 1 - P_i),  A = sum of max(0, P_i p_{i+1} - q_{i+1}),

  and the token after the longest one that does, of i guesses, is drawn from
  norm(max(0, P_i p_{i+1} - q_{i+1})). Behind a row's last guess q is zero:
  there h = P, and the next token is the target's own.

  Args:
    accept_uniform: float32[B, G] in [0, 1), one per prefix.
    next_uniform: float32[B] in [0, 1), for the token after them.
    draft_tokens: As in `verify`.
    draft_probs: As in `verify`.
    target_probs: As in `verify`.
    draft_lengths: As in `verify`.

  Returns:
    The outcome.
  """
  gamma = draft_tokens.shape[1]
  p = _chosen(target_probs[:, :gamma], draft_tokens)
  q = _chosen(draft_probs, draft_tokens)
  ratios = jnp.where(q > 0, p / jnp.where(q > 0, q, 1.0), 0.0)
  if draft_lengths is not None:
    is_guess = jnp.arange(gamma) < draft_lengths[:, None]
    ratios = jnp.where(is_guess, ratios, 0.0)
    draft_probs = jnp.where(is_guess[..., None], draft_probs, 0.0)
  joint = [jnp.ones_like(next_uniform)]
  for i in range(gamma):
    joint.append(jnp.minimum(1.0, joint[-1] * ratios[:, i]))
  joint = jnp.stack(joint, axis=1)

  scaled = joint[..., None] * target_probs
  draft_probs = jnp.pad(draft_probs, ((0, 0), (0, 1), (0, 0)))
  left = jnp.sum(jnp.maximum(scaled - draft_probs, 0.0), axis=-1)[:, 1:]
  # Strict, and without a division, as above. h is 1 where it would be 0 / 0.
  passes = accept_uniform * (left + 1.0 - joint[:, 1:]) < left
  passes |= (joint[:, 1:] >= 1.0) & (left <= 0.0)
  num_accepted = jnp.max(
    jnp.where(passes, jnp.arange(1, gamma + 1), 0), axis=1, initial=0
  )
  return _verdict(num_accepted, next_uniform, scaled, draft_probs)


def is_near_best(
  draft_tokens: Int[Array, "B G"],
  target_logits: Float[Array, "B G1 V"],
  is_greedy: Bool[Array, "B"],
  lenience: float,
) -> Bool[Array, "B G"]:
  """Which guesses lenience lets a greedy row keep (appendix A.5).

  A one-hot law leaves no room for lenience, so it acts before the logits are
  standardised: with p their softmax, whatever the temperature, top-k and
  top-p, guess x passes if p(x) >= l max p. (The paper prints <=, by which
  l = 1 would keep everything.)

  Args:
    draft_tokens: As in `verify`.
    target_logits: float[B, G + 1, V], what `target_probs` were made of.
    is_greedy: bool[B]; other rows have no such guess.
    lenience: As in `verify`.
  """
  logits = target_logits[:, : draft_tokens.shape[1]].astype(jnp.float32)
  chosen = _chosen(logits, draft_tokens)
  # Of both sides the softmax's denominator and the largest term are dropped.
  is_near = jnp.exp(chosen - jnp.max(logits, axis=-1)) >= lenience
  return is_near & is_greedy[:, None]


def residual(
  target_probs: Float[Array, "B V"], draft_probs: Float[Array, "B V"]
) -> Float[Array, "B V"]:
  """max(0, p - q), not normalised; p itself where nothing is left of it.

  Nothing left means p = q, where a rejection is impossible but for rounding.
  """
  left = jnp.maximum(target_probs - draft_probs, 0.0)
  is_empty = jnp.sum(left, axis=-1, keepdims=True) <= 0.0
  return jnp.where(is_empty, target_probs, left)


def _chosen(
  values: Float[Array, "B G V"], tokens: Int[Array, "B G"]
) -> Float[Array, "B G"]:
  """Each token's own entry."""
  return jnp.take_along_axis(values, tokens[..., None], axis=-1)[..., 0]


def _verdict(
  num_accepted: Int[Array, "B"],
  next_uniform: Float[Array, "B"],
  p: Float[Array, "B G1 V"],
  q: Float[Array, "B G1 V"],
) -> Verification:
  """Draws the next token from the residual behind what was accepted."""
  row = num_accepted[:, None, None]
  p_next = jnp.take_along_axis(p, row, axis=1)[:, 0]
  q_next = jnp.take_along_axis(q, row, axis=1)[:, 0]
  next_token = sample(next_uniform, residual(p_next, q_next))
  return Verification(num_accepted.astype(jnp.int32), next_token)


def _check(draft_tokens, draft_probs, target_probs, draft_lengths, near_best):
  if draft_tokens.ndim != 2:
    raise ValueError(
      f"draft_tokens has shape {draft_tokens.shape}; it must be [B, G]."
    )
  batch, gamma = draft_tokens.shape
  if target_probs.ndim != 3 or target_probs.shape[:2] != (batch, gamma + 1):
    raise ValueError(
      f"target_probs has shape {target_probs.shape}; for draft_tokens of"
      f" shape {draft_tokens.shape} it must be [{batch}, {gamma + 1}, V]:"
      " one row per guess and one for the token after them."
    )
  vocab_size = target_probs.shape[-1]
  if draft_probs.shape != (batch, gamma, vocab_size):
    raise ValueError(
      f"draft_probs has shape {draft_probs.shape}; for draft_tokens of shape"
      f" {draft_tokens.shape} and a target of {vocab_size} entries it must"
      f" be [{batch}, {gamma}, {vocab_size}]."
    )
  if draft_lengths is not None and draft_lengths.shape != (batch,):
    raise ValueError(
      f"draft_lengths has shape {draft_lengths.shape}; it must be [{batch}]."
    )
  if near_best is not None and near_best.shape != (batch, gamma):
    raise ValueError(
      f"near_best has shape {near_best.shape}; it must be [{batch}, {gamma}]."
    )
