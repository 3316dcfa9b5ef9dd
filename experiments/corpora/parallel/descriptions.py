"""Package descriptions and their translations (DDTP)."""

from collections.abc import Iterator

from experiments.corpora.align import align
from experiments.corpora.formats import description
from experiments.corpora.index import Index
from experiments.corpora.item import Item

# A synopsis is no neighbour of the paragraphs.
_BEFORE_ALL = -9


def pairs(index: Index) -> Iterator[Item]:
  """Yields synopses and paragraphs."""
  for key, (synopsis_there, extended_there) in sorted(index.german.items()):
    # The translators' mark for a paragraph that is still missing.
    if key not in index.english or "<trans>" in extended_there:
      continue
    synopsis, extended = index.english[key]
    binary = key[0]
    package = index.source(binary)
    yield Item(synopsis, synopsis_there, "ddtp", package, binary, _BEFORE_ALL)
    english = description.parts(extended)
    german = description.parts(extended_there)
    aligned, exact = align(english, german)
    for i, j in aligned:
      kind, text = english[i]
      if kind != description.VERBATIM:
        yield Item(text, german[j][1], "ddtp", package, binary, i, exact)
