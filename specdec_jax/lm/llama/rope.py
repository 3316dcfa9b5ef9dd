"""Rotary position embeddings (Su et al., 2021, "RoFormer").

Queries and keys are turned by angles that grow with their position, so that
their products know the distance between them. A head's halves are the two
coordinates of its planes, as in Hugging Face's weights.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Array, Float, Int


@dataclasses.dataclass(frozen=True)
class LinearScaling:
  """All frequencies are slowed down alike (position interpolation).

  Attributes:
    factor: How many times as long as before texts may be.
  """

  factor: float

  def __post_init__(self):
    _check_positive(self)

  def scale(self, frequencies: np.ndarray) -> np.ndarray:
    """Returns the frequencies that are used instead of these."""
    return frequencies / self.factor


@dataclasses.dataclass(frozen=True)
class Llama3Scaling:
  """Only slow frequencies are slowed down: Llama 3.1 and later.

  A wave that turns more than `high_freq_factor` times within `original_length`
  stays as it is, one that turns less than `low_freq_factor` times is slowed
  down, and between the two one passes into the other.

  Attributes:
    factor: How many times as slow.
    low_freq_factor: In turns.
    high_freq_factor: In turns, more than `low_freq_factor`.
    original_length: Tokens of a text before the scaling.
  """

  factor: float
  low_freq_factor: float = 1.0
  high_freq_factor: float = 4.0
  original_length: int = 8192

  def __post_init__(self):
    _check_positive(self)
    if self.low_freq_factor >= self.high_freq_factor:
      raise ValueError(
        f"Llama3Scaling.low_freq_factor is {self.low_freq_factor} and"
        f" high_freq_factor {self.high_freq_factor}; the latter must be more."
      )

  def scale(self, frequencies: np.ndarray) -> np.ndarray:
    """Returns the frequencies that are used instead of these."""
    turns = self.original_length * frequencies / (2 * math.pi)
    low, high = self.low_freq_factor, self.high_freq_factor
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return kept * frequencies + (1 - kept) * frequencies / self.factor


Scaling = LinearScaling | Llama3Scaling


def scaling_of(fields: Mapping[str, Any]) -> Scaling:
  """Returns what `dataclasses.asdict` made a dictionary of."""
  kind = Llama3Scaling if "original_length" in fields else LinearScaling
  return kind(**fields)


class Rotation(NamedTuple):
  """Cosine and sine of every angle that queries and keys are turned by.

  Attributes:
    cos: float32[b, Q, 1, K / 2], where b is B, or 1 for all rows.
    sin: Likewise.
  """

  cos: Float[Array, "b Q 1 half"]
  sin: Float[Array, "b Q 1 half"]


def frequencies(
  theta: float, head_dim: int, scaling: Scaling | None
) -> Float[np.ndarray, "half"]:
  """Returns radians per position, float32[K / 2], from fast to slow.

  Args:
    theta: The slowest one is about 1 / theta.
    head_dim: K.
    scaling: For longer texts; None for none.
  """
  found = theta ** -(np.arange(0, head_dim, 2) / head_dim)
  if scaling is not None:
    found = scaling.scale(found)
  return found.astype(np.float32)


def rotation(
  frequencies: Float[np.ndarray, "half"], positions: Int[Array, "b Q"]
) -> Rotation:
  """Returns the rotation of tokens at these positions, int32[b, Q]."""
  angles = positions[..., None, None].astype(jnp.float32) * frequencies
  return Rotation(jnp.cos(angles), jnp.sin(angles))


def rotate(
  x: Float[Array, "B Q H K"], rotation: Rotation
) -> Float[Array, "B Q H K"]:
  """Returns queries or keys, turned; float32."""
  one, other = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  return jnp.concatenate(
    [
      one * rotation.cos - other * rotation.sin,
      other * rotation.cos + one * rotation.sin,
    ],
    axis=-1,
  )


def _check_positive(scaling: Scaling) -> None:
  for field in dataclasses.fields(scaling):
    value = getattr(scaling, field.name)
    if isinstance(value, bool) or not (
      isinstance(value, int | float) and 0 < value < math.inf
    ):
      raise ValueError(
        f"{type(scaling).__name__}.{field.name} is {value!r}; it must be a"
        " positive number."
      )
