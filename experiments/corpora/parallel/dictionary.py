"""Example sentences and longer phrases of the dictionary Ding."""

import re
from collections.abc import Iterator

from experiments.corpora.formats import files
from experiments.corpora.item import Item
from experiments.corpora.text import norm, simplify, words

_FILE = "trans-de-en/usr/share/trans/de-en"
_REMARK = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|<[^>]*>")
# Alternatives, and gaps in a phrase.
_ALTERNATIVES = re.compile(r";|/|~|\.\.\.")
_SOMEBODY = re.compile(r"\b(?:etw|jdm?n?s?|sb|sth)\b\.?")
_GROUP_LENGTH = 40


def sentences(root: str) -> Iterator[Item]:
  """Yields what ends like a sentence or has more than six words."""
  for line in files.read(f"{root}/{_FILE}").split("\n"):
    if line.startswith("#") or "::" not in line:
      continue
    german, english = (side.split("|") for side in line.split("::", 1))
    if len(german) != len(english):
      continue
    group = simplify(german[0])[:_GROUP_LENGTH]
    for target, source in zip(
      map(_plain, german), map(_plain, english), strict=True
    ):
      if _is_usable(source, target):
        yield Item(source, target, "dict", "ding", group=group)


def _plain(text: str) -> str:
  return re.sub(r" (?=[.,!?])", "", norm(_REMARK.sub(" ", text)))


def _is_usable(source: str, target: str) -> bool:
  ends = source[-1:] in (".", "?", "!") and target[-1:] in (".", "?", "!")
  return (
    not _ALTERNATIVES.search(target + source)
    and (ends or len(words(source)) > 6)
    and not _SOMEBODY.search(f"{target} {source}")
  )
