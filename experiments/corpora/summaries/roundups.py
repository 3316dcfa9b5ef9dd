"""Several packages of one section of the archive, and their synopses.

The grouping is ours, the texts are not. It gives long summaries of varied
length. A group keeps to one split.
"""

import collections
import random
import re
from collections.abc import Iterator

from experiments.corpora.formats import description
from experiments.corpora.index import Index, base_source
from experiments.corpora.item import Item
from experiments.corpora.quality import is_english
from experiments.corpora.recut import sentences
from experiments.corpora.split import SEED, TEST, TRAIN, VALIDATION, bucket
from experiments.corpora.summaries.packages import DULL
from experiments.corpora.text import words

_ACCESSORY = re.compile(
  r"-(?:dev|doc|dbg|data|common|l10n|locales?)$"
  r"|^(?:fonts|task|hunspell|linux|gcc)-"
)
_PART_SEEDS = {TEST: "t", TRAIN: "r", VALIDATION: "v"}
_SIZES = (3, 4, 5, 6, 8, 10, 12)
_TRAINING_TURNS = 3
_MOST_WORDS = 480


def summaries(index: Index) -> Iterator[Item]:
  """Yields roundups; the training part is grouped three times."""
  pools = collections.defaultdict(dict)
  for (name, _), (synopsis, extended) in sorted(index.english.items()):
    parts = [
      part
      for part in description.parts(extended)
      if part[0] != description.VERBATIM
    ]
    text = description.plain(parts[:2])
    if (
      parts
      and not DULL.search(synopsis)
      and is_english(text, 25, 90)
      and len(words(synopsis)) >= 4
      and not _ACCESSORY.search(name)
    ):
      source = base_source(index.source(name))
      section = index.sections.get(name, "misc")
      pools[_part(source), section].setdefault(source, (name, text, synopsis))
  order = sorted(pools, key=lambda key: (_PART_SEEDS[key[0]], key[1]))
  for part, section in order:
    pool = pools[part, section]
    for turn in range(_TRAINING_TURNS if part == TRAIN else 1):
      rows = [pool[source] for source in sorted(pool, key=bucket)]
      seed = f"{SEED}{_PART_SEEDS[part]}{section}{turn}"
      yield from _groups(rows, random.Random(seed), part, section)


def _part(source: str) -> str:
  number = bucket(source)
  if number >= 40:
    return TRAIN
  return VALIDATION if number < 20 else TEST


def _groups(rows, order, part, section) -> Iterator[Item]:
  order.shuffle(rows)
  start = 0
  while len(rows) - start >= min(_SIZES):
    size = order.choice(_SIZES)
    chosen = rows[start : start + size]
    start += size
    limit = max(30, _MOST_WORDS // len(chosen))
    yield Item(
      " ".join(f"{name}: {_cut(text, limit)}" for name, text, _ in chosen),
      " ".join(f"{name}: {line.rstrip('.')}." for name, _, line in chosen),
      "roundup",
      section,
      chosen[0][0],
      part=part,
    )


def _cut(text: str, limit: int) -> str:
  """The first whole sentences of up to `limit` words."""
  kept, length = [], 0
  for sentence in sentences(text):
    length += len(words(sentence))
    if kept and length > limit:
      break
    kept.append(sentence)
  return " ".join(kept)
