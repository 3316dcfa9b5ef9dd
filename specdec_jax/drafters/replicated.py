"""A drafter of which each device of a mesh does the whole.

The compiler chooses where activations lie. Where laws are sampled, it would cut
the draft's along the vocabulary, as the target's are with which they are
compared, and then each of the draft's short calls waits for all devices several
times. Guesses that are whole on each device prevent that.
"""

import dataclasses

import jax
from jax.sharding import Mesh

from specdec_jax import partitioning
from specdec_jax.array_typing import Array, Cache, Int, Key, Params
from specdec_jax.base import Context, Draft, Drafter, Prefill
from specdec_jax.sampling import Sampler


@dataclasses.dataclass(frozen=True)
class ReplicatedDrafter:
  """Another drafter, whose guesses are not cut along "model".

  Its parameters should lie likewise:
  `partitioning.param_shardings(mesh, model, replicate=True)`.

  Attributes:
    drafter: What guesses.
    mesh: What the target lies on.
  """

  drafter: Drafter
  mesh: Mesh

  @property
  def vocab_size(self) -> int:
    """Width of the guesses' laws."""
    return self.drafter.vocab_size

  def sizes(self, gamma: int) -> tuple[int, ...]:
    """Numbers of guesses; see `Drafter.sizes`."""
    return self.drafter.sizes(gamma)

  def prefill(
    self,
    params: Params,
    inputs: Int[Array, "B S"],
    length: int,
    target: Prefill,
  ) -> Cache:
    """Reads the inputs; see `Drafter.prefill`."""
    return self.drafter.prefill(params, inputs, length, target)

  def draft(
    self,
    params: Params,
    context: Context,
    cache: Cache,
    keys: Key[Array, "B"],
    sampler: Sampler,
    gamma: int,
  ) -> tuple[Draft, Cache]:
    """Guesses; see `Drafter.draft`."""
    draft, cache = self.drafter.draft(
      params, context, cache, keys, sampler, gamma
    )
    rows = partitioning.batch_sharding(self.mesh)
    return jax.lax.with_sharding_constraint(draft, rows), cache
