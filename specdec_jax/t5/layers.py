"""T5's layers, with T5X's parameter names, shapes and logical axes."""

import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Float, Int, Key
from specdec_jax.kv_cache import KVCache
from specdec_jax.t5 import blocked, matmul
from specdec_jax.t5.config import StackConfig

_kernel_init = nn.initializers.variance_scaling(
  1.0, "fan_in", "truncated_normal"
)


def _with_axes(init: Callable, axes: tuple[str, ...]) -> Callable[..., Array]:
  """Gives the dimensions of an initial value their logical names."""
  return nn.with_logical_partitioning(init, axes)  # type: ignore


class Dense(nn.Module):
  """x @ kernel, without a bias; the kernel may be in blocks.

  Attributes:
    features: Width of the output.
    axes: Logical names of the kernel's two dimensions.
    dtype: What the product computes in.
    init_scale: Factor on the initial kernel.
  """

  features: int
  axes: tuple[str, str]
  dtype: str
  init_scale: float = 1.0

  @nn.compact
  def __call__(self, x: Float[Array, "*B i"]) -> Float[Array, "*B o"]:
    if self.has_variable("params", blocked.BLOCKS):
      return _product(self, x, blocked.BLOCKS, self.dtype)

    def init(key, shape, dtype=jnp.float32):
      return self.init_scale * _kernel_init(key, shape, dtype)

    kernel = self.param(
      "kernel",
      _with_axes(init, self.axes),
      (x.shape[-1], self.features),
    )
    return matmul.dot(x.astype(self.dtype), kernel.astype(self.dtype))


def _product(
  module: nn.Module, x: Float[Array, "*B i"], name: str, dtype: str
) -> Float[Array, "*B o"]:
  """The product with a module's blocks."""
  blocks = module.get_variable("params", name)
  return blocked.product(x.astype(dtype), blocks.astype(dtype))


class LayerNorm(nn.Module):
  """RMS norm without mean or bias; statistics in float32."""

  dtype: str
  epsilon: float = 1e-6

  @nn.compact
  def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    scale = self.param(
      "scale",
      _with_axes(nn.initializers.ones, ("embed",)),
      (x.shape[-1],),
    )
    x = x.astype(jnp.float32)
    mean_square = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    y = x * jax.lax.rsqrt(mean_square + self.epsilon)
    return (y * scale).astype(self.dtype)


class MlpBlock(nn.Module):
  """relu in T5 1.0; gelu times a linear gate in 1.1; gelu alone in GPT."""

  config: StackConfig

  @nn.compact
  def __call__(self, x: Float[Array, "B T D"], deterministic: bool = True):
    config = self.config
    names = config.mlp_activations
    if self.has_variable("params", blocked.INPUTS):
      inputs = _product(self, x, blocked.INPUTS, config.dtype)
      inputs = jnp.split(inputs, len(names), axis=-1)
    else:
      inputs = [
        Dense(
          config.mlp_dim,
          ("embed", "mlp"),
          config.dtype,
          name=f"wi_{i}" if len(names) > 1 else "wi",
        )(x)
        for i in range(len(names))
      ]
    hidden = math.prod(
      _ACTIVATIONS[name](y) for name, y in zip(names, inputs, strict=True)
    )
    hidden = nn.Dropout(config.dropout_rate, broadcast_dims=(-2,))(
      hidden, deterministic=deterministic
    )
    return Dense(config.emb_dim, ("mlp", "embed"), config.dtype, name="wo")(
      hidden
    )


_ACTIVATIONS: dict[str, Callable] = {
  "relu": nn.relu,
  "gelu": nn.gelu,  # The tanh form, on T5X's and Hugging Face's side too.
  "silu": nn.silu,
  "linear": lambda x: x,
}


class Attention(nn.Module):
  """Multi-head attention without a scale on the logits.

  One set of projections, three ways to use them: over a whole sequence, as a
  step against a self-attention cache, as a step against fixed keys and values.
  """

  config: StackConfig

  def setup(self):
    config = self.config
    width = config.num_heads * config.head_dim
    # T5 folds attention's 1 / sqrt(head_dim) into the query's initial values.
    self.query = Dense(
      width, ("embed", "joined_kv"), config.dtype, config.head_dim**-0.5
    )
    self.key = Dense(width, ("embed", "joined_kv"), config.dtype)
    self.value = Dense(width, ("embed", "joined_kv"), config.dtype)
    self.out = Dense(config.emb_dim, ("joined_kv", "embed"), config.dtype)
    self.dropout = nn.Dropout(config.dropout_rate, broadcast_dims=(-2,))

  def to_itself(
    self,
    x: Float[Array, "B T D"],
    bias: Float[Array, "#B h #T T"],
    deterministic: bool = True,
  ) -> tuple[Float[Array, "B T D"], KVCache]:
    """Attends from a sequence to itself; `bias` holds mask and positions.

    Returns:
      The result, and the sequence's keys and values.
    """
    query, key, value = self._query_key_value(x)
    memory = KVCache.of_sequence(self._heads(key), self._heads(value))
    return self._attend(query, memory, bias, deterministic), memory

  def step(
    self,
    x: Float[Array, "B Q D"],
    positions: Int[Array, "B"],
    cache: KVCache,
    bias: Float[Array, "B h Q L"],
  ) -> tuple[Float[Array, "B Q D"], KVCache]:
    """Writes the tokens' keys and values, then attends to the cache."""
    query, key, value = self._query_key_value(x)
    cache = cache.write(self._heads(key), self._heads(value), positions)
    return self._attend(query, cache, bias), cache

  def fixed(self, memory: Float[Array, "B S D"]) -> KVCache:
    """Keys and values of another sequence, computed once."""
    return KVCache.of_sequence(
      self._heads(self.key(memory)), self._heads(self.value(memory))
    )

  def to_fixed(
    self,
    x: Float[Array, "B Q D"],
    memory: KVCache,
    bias: Float[Array, "#B h #Q S"],
    deterministic: bool = True,
  ) -> Float[Array, "B Q D"]:
    """Attends to the keys and values of another sequence."""
    return self._attend(self.query(x), memory, bias, deterministic)

  def _query_key_value(self, x: Float[Array, "B T D"]):
    if self.has_variable("params", blocked.QUERY_KEY_VALUE):
      y = _product(self, x, blocked.QUERY_KEY_VALUE, self.config.dtype)
      return jnp.split(y, 3, axis=-1)
    return self.query(x), self.key(x), self.value(x)

  def _attend(
    self,
    query: Float[Array, "B Q HK"],
    memory: KVCache,
    bias: Float[Array, "#B h #Q S"],
    deterministic: bool = True,
  ) -> Float[Array, "B Q D"]:
    logits = jnp.einsum(
      "bqhk,bhkl->bhql",
      self._heads(query),
      memory.key,
      preferred_element_type=jnp.float32,
    )
    weights = jax.nn.softmax(logits + bias, axis=-1)
    weights = self.dropout(
      weights.astype(self.config.dtype), deterministic=deterministic
    )
    # In this order of dimensions; of "bhql,bhlk->bqhk" einsum makes a product
    # of values and weights, which a processor takes several times as long for.
    mixed = jnp.einsum("bhql,bhlk->bhqk", weights, memory.value)
    mixed = mixed.swapaxes(1, 2)
    return self.out(mixed.reshape(*mixed.shape[:2], -1))

  def _heads(self, x: Float[Array, "B T HK"]) -> Float[Array, "B T H K"]:
    return x.reshape(*x.shape[:-1], self.config.num_heads, self.config.head_dim)


def drop_layer(
  key: Key[Array, ""],
  before: Float[Array, "B T D"],
  after: Float[Array, "B T D"],
  rate: float,
) -> Float[Array, "B T D"]:
  """Returns a layer's output, or in some rows its input instead.

  Args:
    key: Which rows skip the layer follows from it.
    before: The input.
    after: The output.
    rate: How likely a row skips the layer.
  """
  skips = jax.random.bernoulli(key, rate, (len(before), 1, 1))
  return jnp.where(skips, before, after)


class RelativeBiasTable(nn.Module):
  """A bias per head and bucket of distances."""

  config: StackConfig

  @nn.compact
  def __call__(self) -> Float[Array, "H buckets"]:
    return self.param(
      "rel_embedding",
      _with_axes(
        nn.initializers.variance_scaling(1.0, "fan_avg", "uniform"),
        ("heads", "relpos_buckets"),
      ),
      (self.config.num_heads, self.config.relative_attention_num_buckets),
    )


class Embed(nn.Module):
  """The token embedding, which encoder and decoder share."""

  config: StackConfig

  def setup(self):
    self.embedding = self.param(
      "embedding",
      _with_axes(nn.initializers.normal(1.0), ("vocab", "embed")),
      (self.config.vocab_size, self.config.emb_dim),
    )

  def __call__(self, tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    return self.embedding[tokens].astype(self.config.dtype)

  def attend(self, y: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
    """Logits against the embedding, scaled; float32."""
    y = y * self.config.emb_dim**-0.5
    return jnp.einsum(
      "btd,vd->btv",
      y,
      self.embedding.astype(y.dtype),
      preferred_element_type=jnp.float32,
    )


class LogitsDense(nn.Module):
  """Logits by a matrix of their own; float32."""

  config: StackConfig

  @nn.compact
  def __call__(self, y: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
    if self.has_variable("params", blocked.BLOCKS):
      y = _product(self, y, blocked.BLOCKS, self.config.dtype)
      return y.astype(jnp.float32)
    kernel = self.param(
      "kernel",
      _with_axes(_kernel_init, ("embed", "vocab")),
      (self.config.emb_dim, self.config.vocab_size),
    )
    return matmul.dot(
      y, kernel.astype(y.dtype), preferred_element_type=jnp.float32
    )
