"""A pair without trained weights, whose guesses are kept at a chosen rate.

Random models agree on nothing, so their speculation would be of no use for a
timing. Here both compute all that they would, and then say something else: the
target a fixed law, alpha for one token and the rest for another; the draft
always that one token. The rejection rule, which knows nothing of it, then keeps
each guess with probability alpha whatever came before, as in the paper's
i.i.d. assumption. So nothing of the decoder is changed: it is exact here too,
and times are those of the real models at that acceptance rate.

What is decoded so is no text, and alpha is an input: reports say SYNTHETIC.
"""

import dataclasses

import jax
import jax.numpy as jnp

from experiments.decoding.pair import Pair, PairConfig
from specdec_jax import t5
from specdec_jax.array_typing import Array, Float, Key, Params
from specdec_jax.t5.checkpoints.assemble import held_dtype

GUESS = 2
OTHER = 3
_NEVER = -1e9


@dataclasses.dataclass(frozen=True)
class SyntheticModel:
  """A model whose law is a fixed one; `with_law` makes its parameters.

  Attributes:
    model: What computes, to no effect but the time that it takes.
  """

  model: t5.T5Model

  def __post_init__(self):
    if self.vocab_size <= OTHER:
      raise ValueError(
        f"vocab_size is {self.vocab_size}; a synthetic law needs more than"
        f" {OTHER}."
      )

  @property
  def vocab_size(self) -> int:
    """Width of the logits."""
    return self.model.vocab_size

  def with_law(self, params: Params, probability: float) -> Params:
    """Returns parameters of this model.

    Args:
      params: Those of `model`.
      probability: How likely the next token is `GUESS`; otherwise it is
        `OTHER`.
    """
    return {"model": params, "probability": jnp.float32(probability)}

  def prefill(self, params, inputs, length):
    """See `DecoderModel.prefill`."""
    return self.model.prefill(params["model"], inputs, length)

  def extend(self, params, tokens, positions, cache):
    """See `DecoderModel.extend`."""
    logits, cache = self.model.extend(params["model"], tokens, positions, cache)
    return _nothing(logits) + self._law(params["probability"]), cache

  def _law(self, probability: Float[Array, ""]) -> Float[Array, "V"]:
    probs = jnp.zeros((self.vocab_size,), jnp.float32)
    probs = probs.at[GUESS].set(probability).at[OTHER].set(1 - probability)
    return jnp.where(probs > 0, jnp.log(probs), _NEVER)


def make_pair(
  target: t5.T5Model,
  draft: t5.T5Model,
  *,
  alpha: float,
  key: Key[Array, ""],
  names: tuple[str, str] = ("target", "draft"),
  like: Pair | None = None,
) -> Pair:
  """Returns a pair with random weights.

  Args:
    target: The target, whose law becomes a fixed one.
    draft: The draft.
    alpha: How likely each guess is kept, in (0, 1].
    key: Of the weights.
    names: What to call them.
    like: A pair of the same target and key, to have its weights of what is the
      same.

  Raises:
    ValueError: If alpha is out of range, or the vocabularies differ in size.
  """
  if target.vocab_size != draft.vocab_size:
    raise ValueError(
      f"{names[0]} has a vocabulary of {target.vocab_size}, {names[1]} of"
      f" {draft.vocab_size}; take two sizes of one family."
    )
  if not 0 < alpha <= 1:
    raise ValueError(f"alpha is {alpha}; it must lie in (0, 1].")
  models = SyntheticModel(target), SyntheticModel(draft)
  keys = jax.random.split(key)
  if like is None:
    target_params = random_params(target, keys[0])
  else:
    target_params = like.target_params["model"]
  if like is not None and like.draft == models[1]:
    draft_params = like.draft_params["model"]
  else:
    draft_params = random_params(draft, keys[1])
  target_params = models[0].with_law(target_params, alpha)
  draft_params = models[1].with_law(draft_params, 1.0)
  config = PairConfig(
    f"{names[0]}, SYNTHETIC", *names, dtype=target.config.dtype
  )
  # It decodes no text, so it has no vocabulary.
  return Pair(config, None, models[0], target_params, models[1], draft_params)  # type: ignore


def random_params(model: t5.T5Model, key: Key[Array, ""]) -> Params:
  """Returns initial values, each array in the dtype that `t5.load` holds it in.

  One program makes them, so there is no float32 copy of a bfloat16 model.
  """

  @jax.jit
  def make(key):
    return jax.tree_util.tree_map_with_path(
      lambda path, each: each.astype(
        held_dtype(path[-1].key, model.config.dtype)
      ),
      model.init(key),
    )

  return make(key)


def size_in_bytes(model: t5.T5Model) -> int:
  """Bytes of the parameters that `random_params` returns."""
  shapes = jax.eval_shape(lambda: random_params(model, jax.random.key(0)))
  return sum(
    each.size * each.dtype.itemsize for each in jax.tree.leaves(shapes)
  )


def _nothing(logits: Float[Array, "B Q V"]) -> Float[Array, "B Q V"]:
  """Zeros that depend on the logits, so that no compiler drops these."""
  return jnp.minimum(jnp.abs(logits), 0.0)
