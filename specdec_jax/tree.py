"""Several drafts of one round, as a tree that the target reads in one call.

Every node is a token. Node 0, the root, is the last committed token; a guess is
a node that follows its parent. A draft is a path from a child of the root to a
leaf, and paths may begin with the same nodes:

    drafts (a b) and (c d), apart     drafts (a b) and (a c), with one a

        0 ── 1 a ── 2 b                   0 ── 1 a ┬─ 2 b
        └─── 3 c ── 4 d                            └─ 3 c

A node goes into a slot of its own of the cache, the root's and its number, at
the position of its depth, and sees what is committed and its own ancestors.
What of the accepted draft is not where it belongs is moved there afterwards
(`base.TreeModel.keep`), so that a cache is in order between two rounds.
"""

import dataclasses
import functools
import itertools

import numpy as np

from specdec_jax.array_typing import Bool, Int


@dataclasses.dataclass(frozen=True)
class Tree:
  """How the guesses of a round hang together; shapes the program.

  Attributes:
    paths: J drafts, each the nodes from the root's child to a leaf. Nodes have
      the numbers from 1 on, all of them, and every node one parent, of a
      smaller number.
  """

  paths: tuple[tuple[int, ...], ...]

  def __post_init__(self):
    if not self.paths or not all(self.paths):
      raise ValueError(
        f"paths is {self.paths}; give a draft or more, each of a node or more."
      )
    parents: dict[int, int] = {}
    for path in self.paths:
      for parent, node in itertools.pairwise((0, *path)):
        if node <= parent or parents.setdefault(node, parent) != parent:
          raise ValueError(
            f"paths is {self.paths}, in which node {node} follows {parent}; a"
            " node needs one parent, of a smaller number."
          )
    if sorted(parents) != list(range(1, len(parents) + 1)):
      raise ValueError(
        f"paths is {self.paths}; number its {len(parents)} nodes from 1 to"
        f" {len(parents)}."
      )

  @classmethod
  def of_drafts(cls, num_drafts: int, gamma: int) -> "Tree":
    """Returns the tree of drafts that have nothing but the root in common."""
    nodes = np.arange(1, 1 + num_drafts * gamma).reshape(num_drafts, gamma)
    return cls(tuple(map(tuple, nodes.tolist())))

  @property
  def num_nodes(self) -> int:
    """M, the root included."""
    return 1 + max(map(max, self.paths))

  @property
  def gamma(self) -> int:
    """G, the length of the longest draft."""
    return max(map(len, self.paths))

  @functools.cached_property
  def nodes(self) -> Int[np.ndarray, "J G"]:
    """The nodes of each draft; 0 behind the last one of a shorter draft."""
    nodes = np.zeros((len(self.paths), self.gamma), np.int32)
    for row, path in zip(nodes, self.paths, strict=True):
      row[: len(path)] = path
    return nodes

  @functools.cached_property
  def depths(self) -> Int[np.ndarray, "M"]:
    """How far each node is from the root."""
    return np.sum(self.sees, axis=1, dtype=np.int32) - 1

  @functools.cached_property
  def sees(self) -> Bool[np.ndarray, "M M"]:
    """Whether [i, j]: node j is node i, or an ancestor of it."""
    sees = np.eye(self.num_nodes, dtype=bool)
    for path in self.paths:
      for parent, node in itertools.pairwise((0, *path)):
        sees[node] |= sees[parent]
    return sees

  @functools.cached_property
  def is_first(self) -> Bool[np.ndarray, "J G"]:
    """Whether a draft has a node there, and is the first one that has it."""
    is_first = np.zeros(self.nodes.shape, bool)
    is_first.flat[np.unique(self.nodes, return_index=True)[1]] = True
    return is_first & (self.nodes > 0)
