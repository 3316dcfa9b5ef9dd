"""Finds pairs that are no translations, by a lexicon learned from them all."""

import collections
import re
from collections.abc import Iterable, Mapping, Sequence

from experiments.corpora.item import Item
from experiments.corpora.text import WORD

Lexicon = Mapping[str, Sequence[str]]
"""Stems of English words, and the German stems that go with each."""

# Endings and compounds blur what is longer.
_SOURCE_STEM, _TARGET_STEM = 6, 7
_LEAST_WORDS, _LEAST_PAIRS = 4, 3
_LEAST_DICE = 0.02


def learn(items: Iterable[Item], max_stems: int = 22, best: int = 8) -> Lexicon:
  """Learns a lexicon by Dice's coefficient of co-occurrence.

  Args:
    items: Pairs; those with more than `max_stems` stems a side teach little.
    max_stems: See `items`.
    best: How many German stems to keep for each English one.
  """
  rows = []
  english, german = collections.Counter(), collections.Counter()
  for item in items:
    ours = _stems(item.source, _SOURCE_STEM)
    theirs = _stems(item.target, _TARGET_STEM)
    if len(ours) <= max_stems and len(theirs) <= max_stems:
      english.update(ours)
      german.update(theirs)
      rows.append((ours, theirs))
  both = collections.Counter()
  for ours, theirs in rows:
    frequent = [stem for stem in theirs if german[stem] >= _LEAST_WORDS]
    for stem in ours:
      if english[stem] >= _LEAST_WORDS:
        both.update((stem, there) for there in frequent)
  candidates = collections.defaultdict(list)
  for (stem, there), number in both.items():
    if number >= _LEAST_PAIRS:
      dice = 2 * number / (english[stem] + german[there])
      candidates[stem].append((dice, there))
  return {
    stem: [
      there
      for dice, there in sorted(found, reverse=True)[:best]
      if dice > _LEAST_DICE
    ]
    for stem, found in candidates.items()
  }


def score(item: Item, lexicon: Lexicon) -> tuple[float, int]:
  """How much of the source is found in the target.

  Returns:
    The share of the source's stems whose likely translation stands anywhere in
    the target, also inside a compound, and how many stems were looked up.
  """
  target = item.target.lower()
  known = [
    stem
    for stem in _stems(item.source, _SOURCE_STEM)
    if stem in lexicon or stem[:5] in target
  ]
  hits = sum(
    stem[:5] in target or any(each in target for each in lexicon.get(stem, ()))
    for stem in known
  )
  return (hits / len(known) if known else 1.0), len(known)


def is_misaligned(item: Item, share: float, known: int) -> bool:
  """Whether so low a score is a sign that the pair is wrong.

  Args:
    item: The pair.
    share: The first of what `score` returns.
    known: The second.
  """
  if item.kind == "dict":  # Short, idiomatic, and paired by hand.
    return False
  if item.exact:
    least = 0.35 if item.kind in ("html", "lohelp") else 0.25
    thresholds = {0: 0, 1: 0, 2: 0, 3: 0.1, 4: 0.25}
  else:
    least = 0.45
    if item.package == "lilypond":
      least = 0.6
    elif item.kind in ("html", "docbook"):
      least = 0.5
    thresholds = {0: 0.01, 1: 0.01, 2: 0.01, 3: 0.4}
  return share < thresholds.get(known, least)


def _stems(text: str, length: int) -> set[str]:
  return {
    part[:length]
    for word in WORD.findall(text.lower())
    for part in re.split(r"[-'\u2019]", word)
    if len(part) > 3
  }
