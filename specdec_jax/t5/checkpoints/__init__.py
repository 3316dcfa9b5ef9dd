"""Weights from and to disk.

| format       | recognised by                            | its own config |
|--------------|------------------------------------------|----------------|
| Hugging Face | config.json with a `model_type`          | yes            |
| ours         | config.json with our `format`            | yes            |
| T5X legacy   | a msgpack file named `checkpoint`        | no             |
| T5X orbax    | a folder named `state`                   | no             |

Each reader lists what is stored, without reading it, and says how a stored
array becomes the network's parameters; `assemble` checks all names and shapes
and only then reads.
"""

from specdec_jax.t5.checkpoints.loading import load
from specdec_jax.t5.checkpoints.saving import save

__all__ = ["load", "save"]
