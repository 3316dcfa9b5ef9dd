"""What teaches a model's first layers to draft for the whole of it.

The loss of early exits (LayerSkip, Elhoushi et al. 2024): after some of the
decoder's layers the final norm and the logits have to say the next token too.
So `t5.self_draft` with these layers is a draft worth having. The model's own
law changes with that, as with any training.
"""

import dataclasses
from collections.abc import Sequence

from specdec_jax.array_typing import Array, Float
from specdec_jax.lm.model import LMModel
from specdec_jax.t5.model import T5Model


@dataclasses.dataclass(frozen=True)
class ExitLoss:
  """The exits, and what they weigh.

  An exit's loss weighs in proportion to its depth: the less a layer can know,
  the less it is pressed.

  Attributes:
    exits: After how many of the decoder's layers, ascending from 1; the whole
      model, which has the rest of the objective, is none of them.
    share: Of the objective, for all exits together, above 0 and below 1.
    layer_dropout: How likely a row of the batch skips the last layer, below 1.
      Of N layers, layer l is skipped with 2 ** (l / (N - 1)) - 1 of that, the
      first never. No layer is skipped or scaled outside training.
  """

  exits: tuple[int, ...]
  share: float = 0.3
  layer_dropout: float = 0.0

  def __post_init__(self):
    exits = tuple(self.exits)
    object.__setattr__(self, "exits", exits)
    if (
      not exits
      or not all(isinstance(each, int) and each > 0 for each in exits)
      or list(exits) != sorted(set(exits))
    ):
      raise ValueError(
        f"ExitLoss.exits is {exits}; give one or more numbers of layers,"
        " ascending from 1, such as (2, 4)."
      )
    if not 0 < self.share < 1:
      raise ValueError(
        f"ExitLoss.share is {self.share}; it must be above 0 and below 1. To"
        " train without exits give no ExitLoss."
      )
    if not 0 <= self.layer_dropout < 1:
      raise ValueError(
        f"ExitLoss.layer_dropout is {self.layer_dropout}; it is a probability"
        " below 1, and 0.0 for none."
      )

  def check(self, model: T5Model | LMModel) -> None:
    """Checks that a model has these exits.

    Raises:
      ValueError: If not, or it has no encoder of its own.
    """
    if self.exits[-1] >= model.num_layers:
      raise ValueError(
        f"ExitLoss.exits is {self.exits}, and the model's decoder has"
        f" {model.num_layers} layers; give numbers below that."
      )
    if isinstance(model, T5Model) and model.shares_encoder:
      raise ValueError(
        "An ExitLoss is for a target, and the model has no encoder of its own"
        " (num_encoder_layers is 0); give none."
      )

  def skip_rates(self, model: T5Model | LMModel) -> tuple[float, ...]:
    """Returns each layer's share of skipped rows; () if there is no dropout."""
    if not self.layer_dropout:
      return ()
    # There are two layers at least: an exit, and what is left of the model.
    deepest = model.num_layers - 1
    return tuple(
      self.layer_dropout * (2 ** (layer / deepest) - 1)
      for layer in range(deepest + 1)
    )

  def mix(
    self, last: Float[Array, ""], exits: Sequence[Float[Array, ""]]
  ) -> Float[Array, ""]:
    """Returns the objective.

    Args:
      last: The whole model's loss.
      exits: Each exit's.
    """
    parts = zip(self.exits, exits, strict=True)
    mean = sum(depth * loss for depth, loss in parts) / sum(self.exits)
    return (1 - self.share) * last + self.share * mean
