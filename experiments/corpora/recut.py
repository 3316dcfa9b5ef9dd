"""The same pairs as sentences, and as windows of adjacent paragraphs."""

import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from experiments.corpora import quality
from experiments.corpora.item import Item
from experiments.corpora.split import bucket
from experiments.corpora.text import words

_ABBREVIATION = re.compile(
  r"(?:\b(?:z\. ?B|d\. ?h|u\. ?a|e\.g|i\.e|bzw|usw|ca|etc|Dr|Mr|Mrs|St|Nr|No"
  r"|vgl|vs|evtl|ggf|inkl|Abb|Fig|engl|sog|o\. ?ä|s\. ?u|s\. ?o|bspw|max|min"
  r"|Std|approx|resp|cf|Inc|al)|\b[A-Z]|\b\d{1,2})\.$"
)
_END = re.compile(
  r"[.!?][\"'\u201d\u201c\u00bb\u00ab)\]]*\s+"
  r"(?=[\"'\u201e\u201c\u00bb\u00ab(\[]*[A-ZÄÖÜ])"
)
# Paragraphs that a filter dropped may lie between, but not more.
_MOST_APART = 3


def sentences(text: str) -> list[str]:
  """Splits a paragraph."""
  found, start = [], 0
  for end in _END.finditer(text):
    if not _ABBREVIATION.search(text[start : end.start() + 1]):
      found.append(text[start : end.end()].strip())
      start = end.end()
  found.append(text[start:].strip())
  return [each for each in found if each]


def sentence_pairs(items: Iterable[Item]) -> Iterator[Item]:
  """Yields sentences of the pairs that have as many on both sides.

  A source occurs once.
  """
  seen = set()
  for item in items:
    ours, theirs = sentences(item.source), sentences(item.target)
    if len(ours) != len(theirs):
      continue
    for source, target in zip(ours, theirs, strict=True):
      rejected = len(ours) > 1 and quality.reason_to_reject(source, target, 3)
      if not rejected and source not in seen:
        seen.add(source)
        yield dataclasses.replace(item, source=source, target=target)


def windows(
  items: Iterable[Item], least: int = 48, most: int = 200
) -> Iterator[Item]:
  """Yields adjacent paragraphs of a document, joined.

  Args:
    items: Paragraphs; those without a position are left out.
    least: Fewest German words of a window.
    most: Most of them.
  """
  documents = collections.defaultdict(list)
  for item in items:
    if item.position is not None and item.position >= 0:
      key = item.kind, item.package, item.document
      documents[key].append((item.position, item))
  for _, document in sorted(documents.items()):
    document.sort(key=lambda placed: placed[0])
    yield from _windows(document, least, most)


def _windows(
  document: Sequence[tuple[int, Item]], least: int, most: int
) -> Iterator[Item]:
  window, length, last = [], 0, 0
  for i, (position, item) in enumerate(document):
    more = len(words(item.target))
    if window and (position - last > _MOST_APART or length + more > most):
      window, length = [], 0
    window.append(item)
    length += more
    last = position
    # Lengths vary: 48 to 137 words with the defaults.
    enough = least + bucket(item.source[:40]) % 90
    is_last = (
      i + 1 == len(document) or document[i + 1][0] - position > _MOST_APART
    )
    if length >= enough or (is_last and length >= least):
      yield dataclasses.replace(
        window[0],
        source=" ".join(each.source for each in window),
        target=" ".join(each.target for each in window),
      )
      window, length = [], 0
