"""T5X's layouts of one and the same parameters.

T5X's minimal T5 has our names and shapes. Its scalable T5 keeps heads apart,
[D, H, K] and [H, K, D], and may stack the layers of a stack along axis 1 of
every array ("scanned"), under encoder/encoder and decoder/decoder.
"""

from collections.abc import Iterator
from typing import TypeVar

import jax
import numpy as np

from specdec_jax.t5.config import StackConfig

_Array = TypeVar("_Array", np.ndarray, jax.Array)


def convert(
  config: StackConfig, name: str, array: _Array
) -> Iterator[tuple[str, _Array]]:
  """See `stored.Convert`; takes arrays on device too."""
  stack, _, rest = name.partition("/")
  if rest.startswith(f"{stack}/") and array.ndim > 1:
    rest = rest.removeprefix(f"{stack}/")
    for i in range(array.shape[1]):
      yield (
        f"{stack}/layers_{i}/{rest}",
        _fold_heads(config, rest, array[:, i]),
      )
  else:
    yield name, _fold_heads(config, name, array)


def _fold_heads(config: StackConfig, name: str, array: _Array) -> _Array:
  # Other heads stay as they are, so that the check of shapes sees them.
  heads = (config.num_heads, config.head_dim)
  if array.ndim != 3:
    return array
  if name.endswith("/out/kernel") and array.shape[:2] == heads:
    return array.reshape(-1, array.shape[2])
  if (
    name.endswith(("/query/kernel", "/key/kernel", "/value/kernel"))
    and array.shape[1:] == heads
  ):
    return array.reshape(array.shape[0], -1)
  return array
