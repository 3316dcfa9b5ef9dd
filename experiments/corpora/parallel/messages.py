"""Messages of programs and games."""

import glob
import json
import os
import re
from collections.abc import Iterator

from experiments.corpora.formats import gettext
from experiments.corpora.item import Item
from experiments.corpora.text import TAG, norm, simplify

_CONTEXT = re.compile(r"^[^\^\n]{0,40}\^")
_EMPTY_LINE = re.compile(r"\n\s*\n")
_GROUP_LENGTH = 40


def catalogues(
  root: str, kind: str, package: str, pattern: str
) -> Iterator[Item]:
  """Yields paragraphs of messages.

  Args:
    root: The folder of unpacked packages.
    kind: See `Item`.
    package: See `Item`.
    pattern: Which catalogues, below `root`.
  """
  for path in sorted(glob.glob(f"{root}/{pattern}")):
    name = os.path.basename(path).removesuffix(".mo")
    for message, translation in gettext.read(path):
      message = _CONTEXT.sub("", message)
      ours, theirs = _paragraphs(message), _paragraphs(translation)
      if len(ours) != len(theirs):
        ours, theirs = [_plain(message)], [_plain(translation)]
      group = simplify(message)[:_GROUP_LENGTH]
      for source, target in zip(ours, theirs, strict=True):
        yield Item(source, target, kind, package, name, group=group)


def mediawiki(root: str) -> Iterator[Item]:
  """Yields the messages of MediaWiki."""
  pattern = f"{root}/mediawiki/**/de.json"
  for there in sorted(glob.glob(pattern, recursive=True)):
    here = os.path.join(os.path.dirname(there), "en.json")
    if not os.path.isfile(here):
      continue
    english, german = _load(here), _load(there)
    for name in sorted(english):
      message, translation = english[name], german.get(name)
      if isinstance(message, str) and isinstance(translation, str):
        yield Item(
          _without_wiki_markup(message),
          _without_wiki_markup(translation),
          "wiki",
          "mediawiki",
          name[:12],
        )


def _plain(text: str) -> str:
  return norm(TAG.sub("", text))


def _paragraphs(text: str) -> list[str]:
  return [_plain(each) for each in _EMPTY_LINE.split(text)]


def _load(path: str) -> dict:
  with open(path, encoding="utf-8") as file:
    return json.load(file)


def _without_wiki_markup(text: str) -> str:
  text = re.sub(r"\[\[(?:[^\]|]*\|)?([^\]|]*)\]\]", r"\1", text)
  text = re.sub(r"\[https?://\S+ ([^\]]*)\]", r"\1", text)
  return _plain(text.replace("'''", "").replace("''", ""))
