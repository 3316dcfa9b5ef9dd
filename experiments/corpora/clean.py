"""Keeps the pairs that are worth training on."""

import collections
import dataclasses
import logging
import re
from collections.abc import Iterable
from typing import NamedTuple

from experiments.corpora import boilerplate, lexicon, quality
from experiments.corpora.item import Item
from experiments.corpora.text import norm, simplify

log = logging.getLogger(__name__)

_HEADING_NUMBER = re.compile(r"\d+(?:\.\d+)*\.? +")
# The same German may translate this many English texts.
_MOST_PER_TARGET = 2
_SYNOPSES_PER_TEMPLATE = 40


class Cleaned(NamedTuple):
  """Pairs that are left, and those that are not.

  Attributes:
    kept: The pairs.
    rejected: By source, how many pairs there were, and why some were rejected.
    misaligned: Those that the lexicon rejected, with their scores.
  """

  kept: list[Item]
  rejected: dict[str, dict[str, int]]
  misaligned: list[tuple[float, Item]]


def clean_pairs(items: Iterable[Item]) -> Cleaned:
  """Drops what is no translation, a duplicate or boilerplate."""
  reasons = collections.defaultdict(collections.Counter)
  sources, targets = set(), collections.Counter()
  kept = []
  for item in map(_normalise, items):
    counts = reasons[_row(item)]
    counts["all"] += 1
    reason = quality.reason_to_reject(item.source, item.target)
    if not reason:
      source, target = simplify(item.source), simplify(item.target)
      if source in sources or targets[target] >= _MOST_PER_TARGET:
        reason = "duplicate"
      else:
        sources.add(source)
        targets[target] += 1
    if reason:
      counts[reason] += 1
    else:
      kept.append(item)
  log.info("%d pairs are aligned and clean", len(kept))
  learned = lexicon.learn(kept)
  good, misaligned = [], []
  for item in kept:
    share, known = lexicon.score(item, learned)
    if lexicon.is_misaligned(item, share, known):
      reasons[_row(item)]["lexicon"] += 1
      misaligned.append((share, item))
    else:
      good.append(item)
  log.info("%d are left by the lexicon", len(good))
  good = boilerplate.cap(good, lambda item: item.source)
  good = boilerplate.cap(good, lambda item: item.target)
  log.info("%d are left without boilerplate", len(good))
  return Cleaned(
    good, {row: dict(counts) for row, counts in reasons.items()}, misaligned
  )


def clean_summaries(items: Iterable[Item]) -> list[Item]:
  """Drops duplicates of either side, and synopses that are boilerplate."""
  seen, kept = set(), []
  for item in items:
    item = dataclasses.replace(
      item, source=norm(item.source), target=norm(item.target)
    )
    source = item.kind, simplify(item.source)
    target = item.kind, simplify(item.target)
    if source not in seen and target not in seen:
      seen.update((source, target))
      kept.append(item)
  synopses = [item for item in kept if item.kind == "synopsis"]
  return [
    *(item for item in kept if item.kind != "synopsis"),
    *boilerplate.cap(
      synopses, lambda item: item.target, most=_SYNOPSES_PER_TEMPLATE
    ),
  ]


def _normalise(item: Item) -> Item:
  source, target = norm(item.source), norm(item.target)
  number = _HEADING_NUMBER.match(source)
  if number and target.startswith(number[0]):
    source, target = source[number.end() :], target[number.end() :]
  return dataclasses.replace(item, source=source, target=target)


def _row(item: Item) -> str:
  return f"{item.kind}:{'' if item.kind == 'ddtp' else item.package}"
