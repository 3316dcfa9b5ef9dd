"""Summaries of package descriptions, written by the packages' maintainers."""

import collections
import re
from collections.abc import Iterator

from experiments.corpora.formats import description
from experiments.corpora.index import Index
from experiments.corpora.item import Item
from experiments.corpora.quality import is_english
from experiments.corpora.text import WORD, simplify, words

# Packages that hold nothing of their own.
DULL = re.compile(
  r"transitional|dummy|metapackage|meta-package|meta package"
  r"|debug(?:ging)? symbols|virtual package",
  re.I,
)
_ABOUT_THE_PACKAGE = re.compile(
  r"^(?:This|The)\s+(?:meta|dummy|transitional|virtual|empty)?-?\s*package\b",
  re.I,
)
_MOST_IN_DIGEST = 8


def summaries(index: Index) -> Iterator[Item]:
  """Yields synopses, leads and digests, source package by source package."""
  packages = collections.defaultdict(dict)
  for (name, _), (synopsis, extended) in sorted(index.english.items()):
    parts = description.parts(extended)
    packages[index.source(name)][name] = synopsis, parts
  for source, binaries in sorted(packages.items()):
    yield from _Source(source).summaries(binaries)


class _Source:
  """A source package: what its packages' descriptions have said already."""

  def __init__(self, name: str):
    self._name = name
    self._texts = set()
    self._paragraphs = set()
    self._openings = collections.Counter()

  def summaries(self, binaries) -> Iterator[Item]:
    digest = []
    for name, (synopsis, parts) in sorted(binaries.items()):
      if DULL.search(synopsis):
        continue
      yield from self._synopsis(name, synopsis, parts)
      yield from self._lead(name, parts)
      fresh = self._fresh(parts)
      if fresh and len(words(synopsis)) >= 3:
        digest.append((name, description.plain(fresh), synopsis))
    yield from self._digests(digest)

  def _synopsis(self, name, synopsis, parts) -> Iterator[Item]:
    """A description and its one line."""
    body = description.plain(parts)
    core = re.sub(r"^(?:an?|the)\s+", "", synopsis, flags=re.I)
    key = simplify(body)
    if (
      is_english(body, 30, 600)
      and 4 <= len(words(core)) <= 24
      and key not in self._texts
      and simplify(core) not in key
      and self._openings[key[:80]] < 2
    ):
      self._texts.add(key)
      self._openings[key[:80]] += 1
      yield Item(body, synopsis, "synopsis", self._name, name)

  def _lead(self, name, parts) -> Iterator[Item]:
    """The rest of a description and its first paragraph."""
    if len(parts) < 2 or parts[0][0] != description.PARAGRAPH:
      return
    lead, rest = parts[0][1], description.plain(parts[1:])
    key = simplify(lead)
    if (
      key not in self._texts
      and not _ABOUT_THE_PACKAGE.match(lead)
      and is_english(lead, 12, 140)
      and is_english(rest, 50, 600)
      and lead.endswith(".")
      and len(words(rest)) >= 1.2 * len(words(lead))
    ):
      self._texts.add(key)
      yield Item(rest, lead, "lead", self._name, name)

  def _fresh(self, parts):
    """Paragraphs that no earlier package of this source had."""
    fresh = [
      (kind, text)
      for kind, text in parts
      if simplify(text) not in self._paragraphs
      and kind != description.VERBATIM
      and "http" not in text
    ]
    self._paragraphs.update(simplify(text) for _, text in parts)
    return fresh

  def _digests(self, digest) -> Iterator[Item]:
    """All descriptions of a source package and their synopses."""
    for start in range(0, len(digest), _MOST_IN_DIGEST):
      chosen = digest[start : start + _MOST_IN_DIGEST]
      if len(chosen) < 3:
        continue
      source = " ".join(f"{name}: {text}" for name, text, _ in chosen)
      target = " ".join(
        f"{name}: {synopsis.rstrip('.')}." for name, _, synopsis in chosen
      )
      distinct = {
        word.lower()
        for _, _, synopsis in chosen
        for word in WORD.findall(synopsis)
      }
      length = len(words(source))
      if (
        length >= 2 * len(words(target))
        and 60 <= length <= 1200
        and len(distinct) >= 4 + 2 * len(chosen)
      ):
        name = f"{self._name}#{start // _MOST_IN_DIGEST}"
        yield Item(source, target, "digest", self._name, name)
