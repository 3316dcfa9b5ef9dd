"""The paper's theory: what speculation brings, in NumPy and float64.

`closed_forms` takes acceptance to be i.i.d., as the paper does; `counted` takes
the histogram of guesses kept per round instead; `laws` compares the two models'
laws, at one place or over whole drafts.
"""

from specdec_jax.analysis.closed_forms import (
  expected_rounds,
  expected_tokens,
  guaranteed_improvement,
  operations_increase,
  optimal_gamma,
  oracle_improvement,
  round_cost,
  wall_time_improvement,
)
from specdec_jax.analysis.counted import (
  counted_operations_increase,
  counted_tokens,
  counted_wall_time_improvement,
)
from specdec_jax.analysis.laws import (
  block_verification_length,
  lk_divergence,
  shared_mass,
  token_verification_length,
)

__all__ = [
  "block_verification_length",
  "counted_operations_increase",
  "counted_tokens",
  "counted_wall_time_improvement",
  "expected_rounds",
  "expected_tokens",
  "guaranteed_improvement",
  "lk_divergence",
  "operations_increase",
  "optimal_gamma",
  "oracle_improvement",
  "round_cost",
  "shared_mass",
  "token_verification_length",
  "wall_time_improvement",
]
