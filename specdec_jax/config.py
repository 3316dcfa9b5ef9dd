"""What the caller chooses: plain, hashable, checked when they are made.

A scalar temperature or budget holds for every row; a sequence gives each row
its own. Both reach the compiled program as arrays, so changing them compiles
nothing; everything else here is part of the program.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

MIN_TEMPERATURE = 1e-4
"""At or below it decoding is greedy, as in T5X's `temperature_sample`."""


def _per_row(name: str, value: Any, kind: type) -> Any:
  """Returns `value` as a Python scalar or as a tuple of them."""
  array = np.asarray(value)
  if array.ndim > 1:
    raise ValueError(
        f"{name} has shape {array.shape}; give one number, or one per row."
    )
  wanted = np.integer if kind is int else (np.integer, np.floating)
  if not array.size or not any(
      np.issubdtype(array.dtype, each)
      for each in (wanted if isinstance(wanted, tuple) else (wanted,))
  ):
    raise ValueError(
        f"{name} is {value!r}; give one {kind.__name__}, or one per row."
    )
  if array.ndim == 0:
    return kind(array)
  return tuple(kind(each) for each in array)


def _lowest(value: float | tuple[float, ...]) -> float:
  return min(value) if isinstance(value, tuple) else value


@dataclasses.dataclass(frozen=True)
class SamplingConfig:
  """How logits become the distribution that is sampled (paper, section 2.2).

  Temperature is applied first, then top-k, then top-p, for the target, the
  draft and the baseline alike.

  Attributes:
    temperature: Divides the logits; one number, or one per row. 0 (anything
      up to `MIN_TEMPERATURE`) is the argmax, the lowest id on ties.
    top_k: Keeps the k most likely tokens and their ties; 0 keeps all.
    top_p: Keeps the fewest most likely tokens whose probabilities sum to at
      least `top_p`, and ties of the last one; 0.0 and 1.0 keep all.
  """

  temperature: float | Sequence[float] = 1.0
  top_k: int = 0
  top_p: float = 1.0

  def __post_init__(self):
    object.__setattr__(
        self, "temperature", _per_row("temperature", self.temperature, float)
    )
    lowest = _lowest(self.temperature)
    if not all(
        math.isfinite(each)
        for each in np.atleast_1d(np.asarray(self.temperature))
    ):
      raise ValueError(
          f"temperature is {self.temperature}; it must be finite. For greedy"
          " decoding set temperature=0."
      )
    if lowest < 0:
      raise ValueError(
          f"temperature is {lowest}; it must be 0 (greedy) or positive."
      )
    if isinstance(self.top_k, bool) or int(self.top_k) != self.top_k:
      raise ValueError(f"top_k is {self.top_k!r}; it must be an integer.")
    if self.top_k < 0:
      raise ValueError(
          f"top_k is {self.top_k}; it must be 0 (off) or positive."
      )
    if not 0.0 <= self.top_p <= 1.0:
      raise ValueError(
          f"top_p is {self.top_p}; it must lie in [0, 1], where both ends"
          " turn it off."
      )
    object.__setattr__(self, "top_k", int(self.top_k))
    object.__setattr__(self, "top_p", float(self.top_p))

  @property
  def greedy(self) -> bool:
    """Whether every row decodes greedily, known before the compilation."""
    temperature = self.temperature
    highest = max(temperature) if isinstance(temperature, tuple) else temperature
    return highest <= MIN_TEMPERATURE


@dataclasses.dataclass(frozen=True)
class SpeculativeConfig:
  """A decoding run; the baseline reads all of it but `gamma`.

  Attributes:
    gamma: Draft tokens per round; 0 is plain autoregressive decoding.
    max_new_tokens: Most tokens to emit, EOS included; one number, or one per
      row. The output is as wide as the largest.
    sampling: How logits become probabilities.
    eos_id: The token that ends a row; -1 (or None) for none, as in T5X.
    pad_id: What fills a row after its end.
    num_decodes: Independent decodes of each input, returned in ascending
      order of their log probability (best last), as in T5X. With more than
      one, every field of the output has an extra dimension after the batch.
  """

  gamma: int = 5
  max_new_tokens: int | Sequence[int] = 128
  sampling: SamplingConfig = SamplingConfig()
  eos_id: int | None = 1
  pad_id: int = 0
  num_decodes: int = 1

  def __post_init__(self):
    for name in ("gamma", "pad_id", "num_decodes"):
      value = getattr(self, name)
      if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} is {value!r}; it must be an integer.")
      object.__setattr__(self, name, int(value))
    if self.gamma < 0:
      raise ValueError(
          f"gamma is {self.gamma}; it must be 0 (no speculation) or positive."
      )
    object.__setattr__(
        self,
        "max_new_tokens",
        _per_row("max_new_tokens", self.max_new_tokens, int),
    )
    if _lowest(self.max_new_tokens) < 1:
      raise ValueError(
          f"max_new_tokens is {_lowest(self.max_new_tokens)}; every row needs"
          " room for at least 1 token."
      )
    if not isinstance(self.sampling, SamplingConfig):
      raise ValueError(
          f"sampling is {self.sampling!r}; give a SamplingConfig."
      )
    if self.eos_id is None:
      object.__setattr__(self, "eos_id", -1)
    elif isinstance(self.eos_id, bool) or not isinstance(
        self.eos_id, (int, np.integer)
    ):
      raise ValueError(f"eos_id is {self.eos_id!r}; it must be an integer.")
    else:
      object.__setattr__(self, "eos_id", int(self.eos_id))
    if self.pad_id < 0:
      raise ValueError(f"pad_id is {self.pad_id}; it must not be negative.")
    if self.num_decodes < 1:
      raise ValueError(
          f"num_decodes is {self.num_decodes}; it must be at least 1."
      )

  @property
  def width(self) -> int:
    """Columns of the output: the largest budget of any row."""
    budget = self.max_new_tokens
    return max(budget) if isinstance(budget, tuple) else budget
