"""The shapes of decoder-only models: a frozen dataclass and a table of sizes.

The paper (section 4.2) says of its GPT-like pair: decoder-only, GELU, 8k
tokens, and the widths in `CONFIGS`. What it leaves open is T5X's decoder-only
example: RMS norms in front of each block, no biases in the products, and one
table of relative position biases for all layers. So layers, parameter names
and logical axes are T5X's and `t5`'s, and no length is built into a model. The
positions cost a few hundred parameters, and embedding and logits do not share
a matrix, as the sizes that the paper gives demand: 97.5M and 5.8M.
"""

import dataclasses
from typing import ClassVar

from specdec_jax.t5.config import StackConfig


@dataclasses.dataclass(frozen=True)
class LMConfig(StackConfig):
  """A decoder-only model's shape; names as in T5X's `TransformerConfig`.

  Attributes:
    vocab_size: Rows of the embedding, padding included.
    emb_dim: Width of the residual stream.
    num_heads: Attention heads.
    num_layers: Layers.
    head_dim: Width of a head.
    mlp_dim: Hidden width of the feed-forward block.
    mlp_activations: ("gelu",), without a gate, in GPT; see `T5Config`.
    logits_via_embedding: Whether the logits use the embedding, scaled by
      emb_dim ** -0.5, or a matrix of their own, unscaled.
    relative_attention_num_buckets: Rows of the table of position biases.
    relative_attention_max_distance: Beyond it all distances are one bucket.
    dropout_rate: For training.
    dtype: What matrix products compute in, "float32" or "bfloat16". Norms,
      softmax and logits are float32 in both.
  """

  FORMAT: ClassVar[str] = "specdec_jax.lm"

  vocab_size: int = 8192
  emb_dim: int = 768
  num_heads: int = 12
  num_layers: int = 12
  head_dim: int = 64
  mlp_dim: int = 3072
  mlp_activations: tuple[str, ...] = ("gelu",)
  logits_via_embedding: bool = False
  relative_attention_num_buckets: int = 32
  relative_attention_max_distance: int = 128
  dropout_rate: float = 0.1
  dtype: str = "float32"

  def shortened(self, num_layers: int) -> "LMConfig":
    """See `StackConfig`."""
    return dataclasses.replace(self, num_layers=num_layers)


CONFIGS: dict[str, LMConfig] = {
  "gpt_97m": LMConfig(emb_dim=768, num_heads=12, num_layers=12, mlp_dim=3072),
  "gpt_6m": LMConfig(emb_dim=256, num_heads=4, num_layers=2, mlp_dim=1024),
}
"""The paper's target and its draft, by name."""


def get_config(name: str) -> LMConfig:
  """Returns a size of the table.

  Raises:
    ValueError: If there is none of that name; names all there are.
  """
  if name not in CONFIGS:
    raise ValueError(
      f"There is no language model named {name!r}; the sizes are"
      f" {', '.join(CONFIGS)}."
    )
  return CONFIGS[name]
