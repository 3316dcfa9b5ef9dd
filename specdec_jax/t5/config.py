"""The shapes of T5: a frozen dataclass and a table of the published sizes.

Sizes are Python facts, not gin macros: two included size files that set the
same macro would silently make target and draft the same model.
"""

import abc
import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class StackConfig(abc.ABC):
  """What a layer knows of the model it is in, with an encoder or without.

  The fields are described, and given their defaults, where a kind of model
  inherits them.

  Attributes:
    FORMAT: What our checkpoints call this kind of model: its package.
  """

  FORMAT: ClassVar[str]
  _MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ()

  vocab_size: int
  emb_dim: int
  num_heads: int
  head_dim: int
  mlp_dim: int
  mlp_activations: tuple[str, ...]
  logits_via_embedding: bool
  relative_attention_num_buckets: int
  relative_attention_max_distance: int
  dropout_rate: float
  dtype: str

  def __post_init__(self):
    name = type(self).__name__
    object.__setattr__(self, "mlp_activations", tuple(self.mlp_activations))
    object.__setattr__(self, "dtype", check_dtype(self.dtype))
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      least = 0 if field.name in self._MAY_BE_ZERO else 1
      if field.type is int and (not isinstance(value, int) or value < least):
        raise ValueError(
          f"{name}.{field.name} is {value!r}; it must be a positive integer."
        )
    unknown = set(self.mlp_activations) - {"relu", "gelu", "linear", "silu"}
    if unknown or not self.mlp_activations:
      raise ValueError(
        f"{name}.mlp_activations is {self.mlp_activations}; T5 1.0 has"
        " ('relu',), T5 1.1 has ('gelu', 'linear'), GPT has ('gelu',)."
      )

  @abc.abstractmethod
  def shortened(self, num_layers: int) -> "StackConfig":
    """Returns the shape of its decoder alone, with so many layers."""


@dataclasses.dataclass(frozen=True)
class T5Config(StackConfig):
  """An encoder-decoder's shape; names as in T5X's `T5Config`.

  Attributes:
    vocab_size: Rows of the embedding, padding included.
    emb_dim: Width of the residual stream.
    num_heads: Attention heads.
    num_encoder_layers: Layers of the encoder; 0 if it has none of its own, but
      attends to what another model's encoder returns.
    num_decoder_layers: Layers of the decoder.
    head_dim: Width of a head.
    mlp_dim: Hidden width of the feed-forward block.
    mlp_activations: ("relu",) in version 1.0, ("gelu", "linear") in 1.1.
    logits_via_embedding: True in version 1.0: the logits use the embedding,
      scaled by emb_dim ** -0.5. False in 1.1: a matrix of their own, unscaled.
    relative_bias_per_layer: Whether every layer has its own table of relative
      position biases (scalable T5, umT5), or a stack shares one.
    relative_attention_num_buckets: Rows of such a table.
    relative_attention_max_distance: Beyond it all distances are one bucket.
    encoded_dim: Width of what another model's encoder returns; None if it has
      an encoder of its own.
    dropout_rate: For training.
    dtype: What matrix products compute in, "float32" or "bfloat16". Norms,
      softmax and logits are float32 in both.
  """

  FORMAT: ClassVar[str] = "specdec_jax.t5"
  _MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ("num_encoder_layers",)

  vocab_size: int = 32128
  emb_dim: int = 512
  num_heads: int = 8
  num_encoder_layers: int = 6
  num_decoder_layers: int = 6
  head_dim: int = 64
  mlp_dim: int = 2048
  mlp_activations: tuple[str, ...] = ("relu",)
  logits_via_embedding: bool = True
  relative_bias_per_layer: bool = False
  relative_attention_num_buckets: int = 32
  relative_attention_max_distance: int = 128
  encoded_dim: int | None = None
  dropout_rate: float = 0.1
  dtype: str = "float32"

  def __post_init__(self):
    super().__post_init__()
    if self.has_encoder != (self.encoded_dim is None):
      raise ValueError(
        f"T5Config.num_encoder_layers is {self.num_encoder_layers} and"
        f" encoded_dim {self.encoded_dim!r}; a model with an encoder has"
        " encoded_dim=None, one without has num_encoder_layers=0 and the"
        " emb_dim of the model whose encoder it shares."
      )
    if self.encoded_dim is not None and (
      not isinstance(self.encoded_dim, int) or self.encoded_dim < 1
    ):
      raise ValueError(
        f"T5Config.encoded_dim is {self.encoded_dim!r}; it must be a positive"
        " integer, or None."
      )

  def shortened(self, num_layers: int) -> "T5Config":
    """See `StackConfig`; the decoder reads the encoding that this one reads."""
    return dataclasses.replace(
      self,
      num_encoder_layers=0,
      num_decoder_layers=num_layers,
      encoded_dim=self.encoded_dim or self.emb_dim,
    )

  @property
  def has_encoder(self) -> bool:
    """Whether the model has an encoder of its own."""
    return self.num_encoder_layers > 0


def check_dtype(dtype: Any) -> str:
  """Returns the name of a compute dtype.

  Args:
    dtype: A name, or anything that NumPy or JAX takes for a dtype.

  Raises:
    ValueError: If it is neither float32 nor bfloat16. float16 overflows in
      T5's feed-forward blocks (values above 65504).
  """
  try:
    name = np.dtype(jnp.dtype(dtype)).name
  except TypeError as error:
    raise ValueError(
      f"dtype is {dtype!r}; use 'float32' or 'bfloat16'."
    ) from error
  if name == "float16":
    raise ValueError(
      "dtype is float16, in which feed-forward activations overflow;"
      " use 'bfloat16' on accelerators or 'float32'."
    )
  if name not in ("float32", "bfloat16"):
    raise ValueError(f"dtype is {name}; use 'float32' or 'bfloat16'.")
  return name


def _v1_0(emb_dim, num_heads, num_layers, mlp_dim, head_dim=64) -> T5Config:
  return T5Config(
    emb_dim=emb_dim,
    num_heads=num_heads,
    num_encoder_layers=num_layers,
    num_decoder_layers=num_layers,
    head_dim=head_dim,
    mlp_dim=mlp_dim,
  )


def _v1_1(
  emb_dim, num_heads, num_layers, mlp_dim, *, decoder=None, vocab=32128
) -> T5Config:
  return T5Config(
    vocab_size=vocab,
    emb_dim=emb_dim,
    num_heads=num_heads,
    num_encoder_layers=num_layers,
    num_decoder_layers=decoder or num_layers,
    mlp_dim=mlp_dim,
    mlp_activations=("gelu", "linear"),
    logits_via_embedding=False,
  )


_MT5_VOCAB = 250112
_BYT5_VOCAB = 384

T5_1_0 = {
  "small": _v1_0(512, 8, 6, 2048),
  "base": _v1_0(768, 12, 12, 3072),
  "large": _v1_0(1024, 16, 24, 4096),
  "3b": _v1_0(1024, 32, 24, 16384, head_dim=128),
  "11b": _v1_0(1024, 128, 24, 65536, head_dim=128),
}

T5_1_1 = {
  "small": _v1_1(512, 6, 8, 1024),
  "base": _v1_1(768, 12, 12, 2048),
  "large": _v1_1(1024, 16, 24, 2816),
  "xl": _v1_1(2048, 32, 24, 5120),
  "xxl": _v1_1(4096, 64, 24, 10240),
}

MT5 = {
  size: dataclasses.replace(config, vocab_size=_MT5_VOCAB)
  for size, config in T5_1_1.items()
}

BYT5 = {
  "small": _v1_1(1472, 6, 12, 3584, decoder=4, vocab=_BYT5_VOCAB),
  "base": _v1_1(1536, 12, 18, 3968, decoder=6, vocab=_BYT5_VOCAB),
  "large": _v1_1(1536, 16, 36, 3840, decoder=12, vocab=_BYT5_VOCAB),
  "xl": _v1_1(2560, 32, 36, 6720, decoder=12, vocab=_BYT5_VOCAB),
  "xxl": _v1_1(4672, 64, 36, 12352, decoder=12, vocab=_BYT5_VOCAB),
}

FLAN_T5 = dict(T5_1_1)

CONFIGS: dict[str, T5Config] = {
  f"{family}_{size}": config
  for family, sizes in (
    ("t5_1_0", T5_1_0),
    ("t5_1_1", T5_1_1),
    ("mt5", MT5),
    ("byt5", BYT5),
    ("flan_t5", FLAN_T5),
  )
  for size, config in sizes.items()
}
"""Every published size by name, "t5_1_1_xxl" and the like."""


def get_config(name: str) -> T5Config:
  """Returns a published size.

  Raises:
    ValueError: If there is none of that name; names all there are.
  """
  if name not in CONFIGS:
    raise ValueError(
      f"There is no T5 named {name!r}; the published sizes are"
      f" {', '.join(CONFIGS)}."
    )
  return CONFIGS[name]
