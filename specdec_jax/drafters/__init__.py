"""Ways to guess: each is a constructor of a `Drafter`."""

from specdec_jax.drafters.model import ModelDrafter, model_drafter

__all__ = ["ModelDrafter", "model_drafter"]
