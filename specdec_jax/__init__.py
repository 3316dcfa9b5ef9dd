"""Exact speculative decoding in JAX (Leviathan, Kalman, Matias; ICML 2023)."""

from specdec_jax.acceptance import acceptance_probabilities, mean_acceptance
from specdec_jax.analysis import (
  block_verification_length,
  counted_operations_increase,
  counted_tokens,
  counted_wall_time_improvement,
  expected_tokens,
  guaranteed_improvement,
  lk_divergence,
  operations_increase,
  optimal_gamma,
  oracle_improvement,
  shared_mass,
  token_verification_length,
  wall_time_improvement,
)
from specdec_jax.autoregressive import autoregressive_generate
from specdec_jax.base import (
  Context,
  DecoderModel,
  Draft,
  Drafter,
  GenerateOutput,
  Prefill,
  SpeculationStats,
)
from specdec_jax.config import SamplingConfig, SpeculativeConfig
from specdec_jax.drafters import model_drafter
from specdec_jax.sampling import Sampler
from specdec_jax.speculative import speculative_generate
from specdec_jax.statistics import acceptance_rate, block_efficiency
from specdec_jax.verification import Verification, verify

__version__ = "0.1.0"

__all__ = [
  "Context",
  "DecoderModel",
  "Draft",
  "Drafter",
  "GenerateOutput",
  "Prefill",
  "Sampler",
  "SamplingConfig",
  "SpeculationStats",
  "SpeculativeConfig",
  "Verification",
  "acceptance_probabilities",
  "acceptance_rate",
  "autoregressive_generate",
  "block_efficiency",
  "block_verification_length",
  "counted_operations_increase",
  "counted_tokens",
  "counted_wall_time_improvement",
  "expected_tokens",
  "guaranteed_improvement",
  "lk_divergence",
  "mean_acceptance",
  "model_drafter",
  "operations_increase",
  "optimal_gamma",
  "oracle_improvement",
  "shared_mass",
  "speculative_generate",
  "token_verification_length",
  "verify",
  "wall_time_improvement",
]
