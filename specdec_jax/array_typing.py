"""The alphabet of array dimensions, and the types that signatures use.

| letter | dimension                                                     |
|--------|---------------------------------------------------------------|
| B      | batch: rows that decode side by side                          |
| S      | source: encoder input tokens of a row                         |
| T      | target: decoder tokens of a teacher-forced row                |
| L      | length of a decoder cache or token buffer                     |
| Q      | query tokens of one decoder call                              |
| G      | gamma: draft tokens of one round                              |
| V      | vocabulary                                                    |
| D      | embedding width                                               |
| H      | attention heads                                               |
| K      | width of one head                                             |
| F      | hidden width of the feed-forward block                        |
| N      | layers                                                        |
| J      | drafts of one round, where there are several                  |
| M      | nodes of the tree that they make                              |

Signatures carry these letters as jaxtyping annotations, for example
`Int[Array, "B Q"]`; the tests check them at run time.
"""

from typing import Any, TypeAlias

from jax import Array
from jaxtyping import Bool, Float, Int, Key, Num

PyTree: TypeAlias = Any
"""A nest of containers whose leaves are arrays."""

Params: TypeAlias = PyTree
"""A model's parameters."""

Cache: TypeAlias = PyTree
"""What a model keeps between two decoder calls; every leaf leads with B."""

__all__ = [
  "Array",
  "Bool",
  "Cache",
  "Float",
  "Int",
  "Key",
  "Num",
  "Params",
  "PyTree",
]
