"""Ways to guess: each is a constructor of a `Drafter`."""

from specdec_jax.drafters.adaptive import AdaptiveDrafter, adaptive_drafter
from specdec_jax.drafters.early_exit import (
  EarlyExitDrafter,
  early_exit_drafter,
)
from specdec_jax.drafters.fallback import FallbackDrafter, fallback_drafter
from specdec_jax.drafters.model import ModelDrafter, model_drafter
from specdec_jax.drafters.ngram import NgramModel, NgramTable, ngram_drafter
from specdec_jax.drafters.ngram_tables import (
  count_ngrams,
  load_ngrams,
  save_ngrams,
)
from specdec_jax.drafters.prompt_lookup import (
  PromptLookupDrafter,
  prompt_lookup_drafter,
)
from specdec_jax.drafters.replicated import ReplicatedDrafter

__all__ = [
  "AdaptiveDrafter",
  "EarlyExitDrafter",
  "FallbackDrafter",
  "ModelDrafter",
  "NgramModel",
  "NgramTable",
  "PromptLookupDrafter",
  "ReplicatedDrafter",
  "adaptive_drafter",
  "count_ngrams",
  "early_exit_drafter",
  "fallback_drafter",
  "load_ngrams",
  "model_drafter",
  "ngram_drafter",
  "prompt_lookup_drafter",
  "save_ngrams",
]
