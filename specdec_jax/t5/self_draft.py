"""A draft made of its own target: some of the decoder's layers, and no more.

The first layers alone are an early exit (LayerSkip, Elhoushi et al. 2024), any
others a target that skips layers (Draft & Verify, Zhang et al. 2024). Either
way the chosen layers hand over to the target's final norm and its logits, and
an encoder-decoder's draft reads what the target's encoder returned. All
parameters are the target's: no array is copied, on whatever device it lies.

A target is seldom good at that untrained, since no layer but the last has
learned to hand over to the norm; `training/exits.py` teaches it.
"""

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from specdec_jax.array_typing import Params
from specdec_jax.t5.flax_model import FlaxModel

Model = TypeVar("Model", bound=FlaxModel)

_LAYER = "layers_"


def self_draft(
  model: Model, params: Params, layers: Sequence[int]
) -> tuple[Model, Params]:
  """Returns a draft, for `sd.model_drafter`, and its parameters.

  Args:
    model: The target, a T5 or a language model.
    params: Its parameters, as `load`, `init` or `lay_out` returns them. What is
      laid out stays so: lay out the target alone, and first.
    layers: The decoder layers that draft, ascending from 0; `range(3)` is the
      exit after three of them.

  Raises:
    TypeError: If `model` is neither.
    ValueError: If `layers` is empty, does not ascend, or names a layer that is
      not there.
  """
  if not isinstance(model, FlaxModel):
    raise TypeError(
      f"model is {type(model).__name__}; only a t5.T5Model or an lm.LMModel has"
      " layers to draft with."
    )
  stack = params["decoder"]
  others = {
    name: value for name, value in stack.items() if not name.startswith(_LAYER)
  }
  layers = _check(layers, model.num_layers)
  chosen = {
    f"{_LAYER}{i}": stack[f"{_LAYER}{layer}"] for i, layer in enumerate(layers)
  }
  kept = {name: value for name, value in params.items() if name != "encoder"}
  config = model.config.shortened(len(layers))
  draft = dataclasses.replace(model, config=config)
  return draft, kept | {"decoder": others | chosen}


def _check(layers: Sequence[int], num_layers: int) -> tuple[int, ...]:
  layers = tuple(layers)
  if (
    not layers
    or not all(isinstance(layer, int) for layer in layers)
    or list(layers) != sorted(set(layers))
    or not 0 <= layers[0] <= layers[-1] < num_layers
  ):
    raise ValueError(
      f"layers is {layers}; give one or more of the decoder's {num_layers}"
      f" layers, 0 to {num_layers - 1}, each once and in ascending order."
    )
  return layers
