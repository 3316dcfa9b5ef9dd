"""What every model of a flax module has: parameters, their shapes and axes."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax

from specdec_jax.array_typing import Array, Cache, Float, Int, Key, Params
from specdec_jax.t5 import blocked
from specdec_jax.t5.config import StackConfig


@dataclasses.dataclass(frozen=True)
class FlaxModel(abc.ABC):
  """A config and its module; hashable, so that jit takes it as static.

  Attributes:
    config: The shape and the compute dtype.
  """

  config: StackConfig

  @property
  def vocab_size(self) -> int:
    """Width of the logits, padding included.

    Padded ids (32100 .. 32127 in T5) are masked in no decoder here, as in
    T5X; a vocabulary decodes them to its unknown token.
    """
    return self.config.vocab_size

  @property
  @abc.abstractmethod
  def num_layers(self) -> int:
    """Layers of the decoder."""

  @property
  @abc.abstractmethod
  def module(self) -> nn.Module:
    """The flax module."""

  def init(self, key: Key[Array, ""]) -> Params:
    """Returns random parameters, float32, as T5X initialises them."""
    return nn.meta.unbox(self._init(key))

  def logical_axes(self) -> Params:
    """The parameters' tree with T5X's logical axis names as leaves."""
    return nn.get_partition_spec(jax.eval_shape(self._init, jax.random.key(0)))

  def param_shapes(self) -> Params:
    """The parameters' tree with `jax.ShapeDtypeStruct` as leaves."""
    return jax.eval_shape(self.init, jax.random.key(0))

  def lay_out(self, params: Params, backend: str | None = None) -> Params:
    """Returns the parameters as decoding is fastest with them.

    All of the model's functions take them so, but they have other names and
    shapes: save, train and share out along a mesh what `load` returned. On a
    processor, in float32, the kernels of a step are in blocks (`t5.blocked`);
    accelerators want them as they are.

    Args:
      params: From `load` or `init`.
      backend: Where they will be used; None for JAX's default.
    """
    if (backend or jax.default_backend()) != "cpu":
      return params
    return blocked.lay_out(params) if self.config.dtype == "float32" else params

  def extend_first(
    self,
    params: Params,
    tokens: Int[Array, "B Q"],
    positions: Int[Array, "B"],
    cache: Cache,
    layers: int,
  ) -> tuple[Float[Array, "B Q D"], Cache]:
    """Lets tokens go through the first layers; see `base.LayeredModel`."""
    return self._apply("extend_first", params, tokens, positions, cache, layers)

  def read_out(
    self, params: Params, states: Float[Array, "B Q D"]
  ) -> Float[Array, "B Q V"]:
    """Returns logits of any layer's states; see `base.LayeredModel`."""
    return self._apply("read_out", params, states)

  def extend_rest(
    self,
    params: Params,
    states: Float[Array, "B Q D"],
    positions: Int[Array, "B"],
    cache: Cache,
    layers: int,
  ) -> tuple[Float[Array, "B Q V"], Cache]:
    """Lets states go through the other layers; see `base.LayeredModel`."""
    return self._apply("extend_rest", params, states, positions, cache, layers)

  @abc.abstractmethod
  def _init(self, key) -> Any:
    """Returns random parameters with their logical axes."""

  def _apply(self, method: Callable | str, params: Params, *arguments) -> Any:
    return self.module.apply({"params": params}, *arguments, method=method)
