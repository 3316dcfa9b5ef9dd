"""T5, versions 1.0 and 1.1: network, published sizes, weights."""

from specdec_jax.t5.checkpoints import load, save
from specdec_jax.t5.config import CONFIGS, T5Config, get_config
from specdec_jax.t5.model import T5Model
from specdec_jax.t5.self_draft import self_draft

__all__ = [
  "CONFIGS",
  "T5Config",
  "T5Model",
  "get_config",
  "load",
  "save",
  "self_draft",
]
