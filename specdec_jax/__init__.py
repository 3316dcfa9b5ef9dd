"""Exact speculative decoding in JAX (Leviathan, Kalman, Matias; ICML 2023)."""

from specdec_jax import analysis
from specdec_jax.acceptance import acceptance_probabilities, mean_acceptance
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
from specdec_jax.continuous import ContinuousBatch
from specdec_jax.drafters import (
  NgramTable,
  adaptive_drafter,
  count_ngrams,
  fallback_drafter,
  load_ngrams,
  model_drafter,
  ngram_drafter,
  prompt_lookup_drafter,
  save_ngrams,
)
from specdec_jax.sampling import Sampler
from specdec_jax.speculative import speculative_generate
from specdec_jax.statistics import acceptance_rate, block_efficiency
from specdec_jax.verification import Verification, verify

__version__ = "0.1.0"

__all__ = [
  "Context",
  "ContinuousBatch",
  "DecoderModel",
  "Draft",
  "Drafter",
  "GenerateOutput",
  "NgramTable",
  "Prefill",
  "Sampler",
  "SamplingConfig",
  "SpeculationStats",
  "SpeculativeConfig",
  "Verification",
  "acceptance_probabilities",
  "acceptance_rate",
  "adaptive_drafter",
  "analysis",
  "autoregressive_generate",
  "block_efficiency",
  "count_ngrams",
  "fallback_drafter",
  "load_ngrams",
  "mean_acceptance",
  "model_drafter",
  "ngram_drafter",
  "prompt_lookup_drafter",
  "save_ngrams",
  "speculative_generate",
  "verify",
]
