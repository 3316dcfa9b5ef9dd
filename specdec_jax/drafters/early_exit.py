"""The target's own first layers as the drafter, on whose work its call builds.

A guess is what the final norm and the logits make of what some first layers
hand on (LayerSkip, Elhoushi et al. 2024). The target's call then begins behind
these layers: their keys and values stand in its cache, and their states come
with the guesses. So in a round each token goes through each layer once, which
is what checking alone costs in arithmetic; there is no cache but the target's,
and the inputs are read once.

As many weights are read as by `t5.self_draft` with the same layers, which has
the same law: the last guess goes through the first layers by itself, for the
target to read it. On a machine that waits for weights the gain is memory, and
the reading of the inputs; where several tokens cost more than one, it is time.
"""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Cache, Int, Key, Params
from specdec_jax.base import Context, Draft, LayeredModel, Prefill
from specdec_jax.keys import uniform_rows
from specdec_jax.sampling import Sampler


@dataclasses.dataclass(frozen=True)
class EarlyExitDrafter:
  """Draws guesses from an exit of the target.

  It has no parameters: those of `draft` are the target's, and so is the cache.

  Attributes:
    model: The target.
    shared_layers: After how many of its layers guesses are drawn.
  """

  model: LayeredModel
  shared_layers: int

  @property
  def vocab_size(self) -> int:
    """Width of the guesses' laws."""
    return self.model.vocab_size

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
    """Reads nothing: the target has.

    Raises:
      ValueError: If there are parameters.
    """
    del inputs, length, target
    if params is not None:
      raise ValueError(
        "draft_params are given, but an early exit drafts with the target's;"
        " set them to None. (A draft of layers with other parameters is"
        " sd.model_drafter(draft).)"
      )

  def draft(
    self,
    params: Params,
    context: Context,
    cache: Cache,
    keys: Key[Array, "B"],
    sampler: Sampler,
    gamma: int,
  ) -> tuple[Draft, Cache]:
    """Guesses in a scan of `gamma` calls of these layers, and a last call.

    Args:
      params: The target's.
      context: See `Drafter.draft`, as for what follows.
      cache: The target's.
      keys: A key per row.
      sampler: Turns logits into laws.
      gamma: How many tokens to guess.
    """

    def step(carry, uniform):
      token, position, cache = carry
      states, cache = self._first(params, token, position, cache)
      logits = self.model.read_out(params, states)
      token, probs = sampler.draw(uniform, logits)
      return (token, position + 1, cache), (token, probs, states[:, 0])

    last = context.lengths - 1
    token = jnp.take_along_axis(context.tokens, last[:, None], axis=1)[:, 0]
    uniform = uniform_rows(keys, gamma).swapaxes(0, 1)
    (token, position, cache), made = jax.lax.scan(
      step, (token, context.position + last, cache), uniform
    )
    tokens, probs, states = (x.swapaxes(0, 1) for x in made)
    # The last guess was drawn, but has not gone through the layers.
    of_last, cache = self._first(params, token, position, cache)
    states = jnp.concatenate([states, of_last], axis=1)
    return Draft(tokens, probs, states=states), cache

  def _first(self, params, token, position, cache):
    return self.model.extend_first(
      params, token[:, None], position, cache, self.shared_layers
    )


def early_exit_drafter(
  target: LayeredModel, *, layers: int
) -> EarlyExitDrafter:
  """Makes a drafter of the target's first layers; `draft_params` are None.

  Args:
    target: The very model that decodes, a T5 or a language model.
    layers: After how many of its layers to guess; fewer than it has.

  Raises:
    TypeError: If the model is not made of layers.
    ValueError: If it has not more than so many.
  """
  if not isinstance(target, LayeredModel):
    raise TypeError(
      f"target is {type(target).__name__}; give a LayeredModel, such as a"
      " t5.T5Model or an lm.LMModel."
    )
  if not isinstance(layers, int) or not 0 < layers < target.num_layers:
    raise ValueError(
      f"layers is {layers}, and the target has {target.num_layers}; give a"
      f" number from 1 to {target.num_layers - 1}."
    )
  return EarlyExitDrafter(target, layers)
