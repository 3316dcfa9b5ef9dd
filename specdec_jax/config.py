"""What the caller chooses: plain, hashable, checked when they are made.

A scalar temperature or budget holds for every row; a sequence gives each row
its own. Both reach the compiled program as arrays, so changing them compiles
nothing (but for all-greedy runs, whose program has no softmax); everything else
here is part of the program.
"""

import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

MIN_TEMPERATURE = 1e-4
"""At or below it decoding is greedy, as in T5X's `temperature_sample`."""

VERIFICATION_RULES = ("token", "block")
"""Both exact; `verification` has them."""


def _per_row(name: str, value: Any, kind: type) -> Any:
  """Returns one number, or one per row as a tuple, of the wanted kind."""
  array = np.asarray(value)
  is_number = np.issubdtype(array.dtype, np.integer) or (
    kind is float and np.issubdtype(array.dtype, np.floating)
  )
  if not is_number or array.ndim > 1 or not array.size:
    raise ValueError(
      f"{name} is {value!r}; give one {kind.__name__}, or one per row."
    )
  return tuple(map(kind, array)) if array.ndim else kind(array)


def _integer(name: str, value: Any) -> int:
  """Returns an integer as Python's own, so that configs compare by value."""
  if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
    raise ValueError(f"{name} is {value!r}; it must be an integer.")
  return int(value)


def check_lenience(value: Any) -> float:
  """Returns a lenience (see `SpeculativeConfig`) as Python's own float.

  Raises:
    ValueError: If it is not a number in [0, 1].
  """
  # Not a bool: False would be 0, where nearly anything passes.
  is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
  if not (is_number and 0 <= float(value) <= 1):
    raise ValueError(
      f"lenience is {value!r}; it must lie in [0, 1], where 1 (exact) is off"
      " and anything below it changes the output's distribution."
    )
  return float(value)


def check_rule(name: Any, lenience: float = 1.0):
  """Refuses a rule (see `SpeculativeConfig.verification`) that is none.

  Raises:
    ValueError: If there is no such rule, or it knows no lenience.
  """
  if name not in VERIFICATION_RULES:
    raise ValueError(
      f"verification is {name!r}; it must be one of"
      f" {', '.join(map(repr, VERIFICATION_RULES))}."
    )
  if name == "block" and lenience < 1:
    raise ValueError(
      f"lenience is {lenience:g}, but verification is 'block', which has no"
      " lenient form; set lenience=1.0 or verification='token'."
    )


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
    temperature = _per_row("temperature", self.temperature, float)
    for each in np.atleast_1d(temperature):
      if not (math.isfinite(each) and each >= 0):
        raise ValueError(
          f"temperature is {each}; it must be 0 (greedy) or positive, and"
          " finite."
        )
    top_k = _integer("top_k", self.top_k)
    if top_k < 0:
      raise ValueError(f"top_k is {top_k}; it must be 0 (off) or positive.")
    if not (isinstance(self.top_p, numbers.Real) and 0 <= self.top_p <= 1):
      raise ValueError(
        f"top_p is {self.top_p!r}; it must lie in [0, 1], where both ends"
        " turn it off."
      )
    object.__setattr__(self, "temperature", temperature)
    object.__setattr__(self, "top_k", top_k)
    object.__setattr__(self, "top_p", float(self.top_p))

  @property
  def greedy(self) -> bool:
    """Whether every row decodes greedily, known before the compilation."""
    return bool(np.max(self.temperature) <= MIN_TEMPERATURE)


@dataclasses.dataclass(frozen=True)
class SpeculativeConfig:
  """A decoding run; the baseline reads all of it but `gamma`.

  Attributes:
    gamma: Draft tokens per round; 0 is plain autoregressive decoding.
    max_new_tokens: Most tokens to emit, EOS included; one number, or one per
      row. The output is as wide as the largest.
    sampling: How logits become probabilities.
    eos_id: The token that ends a row; -1 for none, as in T5X.
    pad_id: What fills a row after its end.
    num_decodes: Independent decodes of each input, returned in ascending
      order of their log probability (best last), as in T5X. With more than
      one, every field of the output has an extra dimension after the batch.
    lenience: LOSSY below 1: the output's distribution is then not the
      target's. 1, the default, is exact. The l of the paper's appendix A.5, in
      [0, 1]: guess x is kept with probability min(1, p(x) / (l q(x))), so that
      a token becomes at most 1 / l times as likely as the target makes it; in
      greedy rows if p(x) >= l max p, with the p of the target's logits as they
      are.
    verification: Which rule judges the guesses. "token", the paper's, goes
      from guess to guess; "block" (Sun et al., 2024) takes them together and
      keeps at least as many in expectation. Both are exact.
  """

  gamma: int = 5
  max_new_tokens: int | Sequence[int] = 128
  sampling: SamplingConfig = SamplingConfig()
  eos_id: int = 1
  pad_id: int = 0
  num_decodes: int = 1
  lenience: float = 1.0
  verification: str = "token"

  def __post_init__(self):
    if self.eos_id is None:
      object.__setattr__(self, "eos_id", -1)
    for name, lowest, meaning in (
      ("gamma", 0, "0 (no speculation) or positive"),
      ("eos_id", -1, "a token id, or -1 for none"),
      ("pad_id", 0, "a token id"),
      ("num_decodes", 1, "at least 1"),
    ):
      value = _integer(name, getattr(self, name))
      if value < lowest:
        raise ValueError(f"{name} is {value}; it must be {meaning}.")
      object.__setattr__(self, name, value)
    budgets = _per_row("max_new_tokens", self.max_new_tokens, int)
    if np.min(budgets) < 1:
      raise ValueError(
        f"max_new_tokens is {np.min(budgets)}; every row needs room for at"
        " least 1 token."
      )
    object.__setattr__(self, "max_new_tokens", budgets)
    object.__setattr__(self, "lenience", check_lenience(self.lenience))
    check_rule(self.verification, self.lenience)
    if not isinstance(self.sampling, SamplingConfig):
      raise ValueError(f"sampling is {self.sampling!r}; give a SamplingConfig.")

  @property
  def width(self) -> int:
    """Columns of the output: the largest budget of any row."""
    return int(np.max(self.max_new_tokens))

  @property
  def is_exact(self) -> bool:
    """Whether the output has the target's own distribution."""
    return self.lenience == 1 or not self.gamma
