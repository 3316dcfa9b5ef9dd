"""Pairs the paragraphs of two versions of a document."""

import math
import re
from collections.abc import Sequence

Block = tuple[str | None, str]
"""The tag of a paragraph and its text."""

# What stays the same in a translation: numbers, paths, options, names.
_ANCHOR = re.compile(
  r"[A-Za-z]*\d[\w.]*|[\w.]*[_/.][\w./]+|[A-Z]{2,}\w*|--?\w[\w-]+"
  r"|\b[A-Z][a-z]+[A-Z]\w*"
)
_NEVER = -1e9
# A pair with a lower score is worse than leaving both out.
_LEAST = 0.15
_SKIP_FIRST, _SKIP_SECOND, _PAIR = 1, 2, 3


def align(
  first: Sequence[Block], second: Sequence[Block], band: int = 160
) -> tuple[list[tuple[int, int]], bool]:
  """Pairs blocks one to one, in order.

  Args:
    first: Blocks of one version.
    second: Blocks of the other.
    band: How far from the diagonal to look; more where the lengths differ.

  Returns:
    Pairs of indices, and whether both have the same tags throughout, so that
    nothing had to be guessed. Otherwise the pairs have the highest sum of
    scores: equal tags, like lengths, shared anchors.
  """
  if [tag for tag, _ in first] == [tag for tag, _ in second]:
    return list(zip(range(len(first)), range(len(second)), strict=True)), True
  if not first or not second:
    return [], False
  band = max(band, abs(len(first) - len(second)) + 60)
  return _trace(_choices(_features(first), _features(second), band)), False


def _features(blocks):
  return [(tag, len(text), set(_ANCHOR.findall(text))) for tag, text in blocks]


def _score(one, other) -> float:
  (tag, length, anchors), (tag_there, length_there, anchors_there) = one, other
  score = 0.9 if tag == tag_there else -0.6
  # German is a tenth longer.
  score -= 1.5 * abs(math.log((length_there + 12) / (1.1 * length + 12)))
  if anchors or anchors_there:
    shared = 2 * len(anchors & anchors_there)
    score += 1.2 * (shared / (len(anchors) + len(anchors_there))) - 0.4
  return score


def _choices(first, second, band):
  """The best last step for each pair of prefixes near the diagonal."""
  n, m = len(first), len(second)
  before = dict.fromkeys(range(m + 1), 0.0)
  choices = []
  for i in range(1, n + 1):
    centre = i * m // n
    row, chosen = {}, {}
    for j in range(max(0, centre - band), min(m, centre + band) + 1):
      best, step = before.get(j, _NEVER), _SKIP_FIRST
      if j and row.get(j - 1, _NEVER) > best:
        best, step = row[j - 1], _SKIP_SECOND
      if j:
        score = _score(first[i - 1], second[j - 1])
        if score > _LEAST and before.get(j - 1, _NEVER) + score > best:
          best, step = before[j - 1] + score, _PAIR
      row[j], chosen[j] = best, step
    before = row
    choices.append(chosen)
  return choices, n, m


def _trace(found) -> list[tuple[int, int]]:
  choices, i, j = found
  path = []
  while i and j:
    step = choices[i - 1].get(j, _SKIP_FIRST)
    if step == _PAIR:
      i, j = i - 1, j - 1
      path.append((i, j))
    elif step == _SKIP_SECOND:
      j -= 1
    else:
      i -= 1
  return path[::-1]
