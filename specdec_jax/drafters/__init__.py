"""Ways to guess: each is a constructor of a `Drafter`."""

from specdec_jax.drafters.model import ModelDrafter, model_drafter
from specdec_jax.drafters.ngram import NgramModel, NgramTable, ngram_drafter
from specdec_jax.drafters.ngram_tables import (
  count_ngrams,
  load_ngrams,
  save_ngrams,
)

__all__ = [
  "ModelDrafter",
  "NgramModel",
  "NgramTable",
  "count_ngrams",
  "load_ngrams",
  "model_drafter",
  "ngram_drafter",
  "save_ngrams",
]
