"""A draft that shares its target's encoder, as a model of its own.

To decode with such a draft alone, for its BLEU say, the target's encoder must
run; drafting needs none of this.
"""

import dataclasses

from specdec_jax import t5
from specdec_jax.array_typing import Array, Cache, Float, Int, Params
from specdec_jax.base import Prefill


@dataclasses.dataclass(frozen=True)
class WithEncoder:
  """A decoder and the encoder that it reads; its parameters are both's.

  Attributes:
    encoder: The model whose encoder is run.
    decoder: The model that decodes.
  """

  encoder: t5.T5Model
  decoder: t5.T5Model

  @property
  def vocab_size(self) -> int:
    """Width of the logits."""
    return self.decoder.vocab_size

  def prefill(
    self, params: Params, inputs: Int[Array, "B S"], length: int
  ) -> Prefill:
    """Encodes with the one, for the other; see `DecoderModel.prefill`."""
    encoded = self.encoder.encode(params["encoder"], inputs)
    return self.decoder.prefill_encoded(
      params["decoder"], encoded, inputs, length
    )

  def extend(
    self,
    params: Params,
    tokens: Int[Array, "B Q"],
    positions: Int[Array, "B"],
    cache: Cache,
  ) -> tuple[Float[Array, "B Q V"], Cache]:
    """Decodes; see `DecoderModel.extend`."""
    return self.decoder.extend(params["decoder"], tokens, positions, cache)
