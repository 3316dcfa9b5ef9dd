"""The shapes of Llama: a frozen dataclass and a table of published sizes."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from specdec_jax.lm.llama import rope
from specdec_jax.t5.config import StackConfig


@dataclasses.dataclass(frozen=True)
class LlamaConfig(StackConfig):
  """A Llama's shape; names as in `LMConfig` where that has them.

  Attributes:
    vocab_size: Rows of the embedding, padding included.
    emb_dim: Width of the residual stream.
    num_heads: Attention heads of the queries.
    num_key_value_heads: Those of keys and values; each serves as many of the
      queries' (grouped-query attention).
    num_layers: Layers.
    head_dim: Width of a head, an even number.
    mlp_dim: Hidden width of the feed-forward block.
    mlp_activations: ("silu", "linear"), which is SwiGLU.
    logits_via_embedding: Whether the logits use the embedding, unscaled, or a
      matrix of their own.
    norm_epsilon: What the norms add to the mean square.
    rope_theta: The longest wave of the positions, in about tokens / 2 pi.
    rope_scaling: How waves are stretched for longer texts; None if not at all.
    max_positions: Tokens of the longest text, prompt included.
    pad_id: What fills up shorter prompts on their right: BOS, with which no
      prompt ends, whatever its tokenizer pads with.
    dropout_rate: For training, in the feed-forward blocks; Llama has none.
    dtype: What matrix products compute in, "float32" or "bfloat16". Norms,
      rotations, softmax and logits are float32 in both.
  """

  FORMAT: ClassVar[str] = "specdec_jax.lm.llama"
  _MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ("pad_id",)

  vocab_size: int = 32000
  emb_dim: int = 4096
  num_heads: int = 32
  num_key_value_heads: int = 32
  num_layers: int = 32
  head_dim: int = 128
  mlp_dim: int = 11008
  mlp_activations: tuple[str, ...] = ("silu", "linear")
  logits_via_embedding: bool = False
  norm_epsilon: float = 1e-5
  rope_theta: float = 10000.0
  rope_scaling: rope.Scaling | None = None
  max_positions: int = 4096
  pad_id: int = 1
  dropout_rate: float = 0.0
  dtype: str = "float32"

  def __post_init__(self):
    super().__post_init__()
    if isinstance(self.rope_scaling, Mapping):
      # As it comes out of a config.json of ours.
      object.__setattr__(
        self, "rope_scaling", rope.scaling_of(self.rope_scaling)
      )
    if self.num_heads % self.num_key_value_heads:
      raise ValueError(
        f"LlamaConfig.num_heads is {self.num_heads} and num_key_value_heads"
        f" {self.num_key_value_heads}; the latter must divide the former."
      )
    if self.head_dim % 2:
      raise ValueError(
        f"LlamaConfig.head_dim is {self.head_dim}; rotations need it even."
      )
    if self.pad_id >= self.vocab_size:
      raise ValueError(
        f"LlamaConfig.pad_id is {self.pad_id}, and vocab_size"
        f" {self.vocab_size}; give an id of the vocabulary, its BOS."
      )
    for name in ("norm_epsilon", "rope_theta"):
      if not getattr(self, name) > 0:
        raise ValueError(
          f"LlamaConfig.{name} is {getattr(self, name)}; it must be positive."
        )


_LLAMA_3_1 = LlamaConfig(
  vocab_size=128256,
  num_key_value_heads=8,
  mlp_dim=14336,
  rope_theta=500000.0,
  rope_scaling=rope.Llama3Scaling(factor=8.0),
  max_positions=131072,
  pad_id=128000,
)
_LLAMA_3_2 = dataclasses.replace(
  _LLAMA_3_1,
  mlp_dim=8192,
  logits_via_embedding=True,
  rope_scaling=rope.Llama3Scaling(factor=32.0),
)

CONFIGS: dict[str, LlamaConfig] = {
  "llama_3_1_8b": _LLAMA_3_1,
  "llama_3_1_70b": dataclasses.replace(
    _LLAMA_3_1, emb_dim=8192, num_heads=64, num_layers=80, mlp_dim=28672
  ),
  "llama_3_2_1b": dataclasses.replace(
    _LLAMA_3_2, emb_dim=2048, num_layers=16, head_dim=64
  ),
  "llama_3_2_3b": dataclasses.replace(
    _LLAMA_3_2, emb_dim=3072, num_heads=24, num_layers=28
  ),
  "tinyllama_1_1b": LlamaConfig(
    emb_dim=2048,
    num_key_value_heads=4,
    num_layers=22,
    head_dim=64,
    mlp_dim=5632,
    max_positions=2048,
  ),
}
"""Published sizes by name; 3.1's are those of Llama 3.3 too."""


def get_config(name: str) -> LlamaConfig:
  """Returns a published size.

  Raises:
    ValueError: If there is none of that name; names all there are.
  """
  if name not in CONFIGS:
    raise ValueError(
      f"There is no Llama named {name!r}; the sizes are {', '.join(CONFIGS)}."
    )
  return CONFIGS[name]
