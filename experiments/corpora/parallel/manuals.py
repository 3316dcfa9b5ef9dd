"""Manuals of which a package holds the same pages in both languages."""

import collections
import glob
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from experiments.corpora.align import align
from experiments.corpora.formats import files, markup, roff
from experiments.corpora.item import Item

_LIBREOFFICE = "libreoffice-help-{0}/usr/share/libreoffice/help/{1}/text"
# What &kappname; stands for.
_APPLICATIONS = {"kate": "Kate", "kmymoney": "KMyMoney"}


class Manual(NamedTuple):
  """Where a manual's pages lie, below the folder of unpacked packages.

  Attributes:
    kind: See `Item`.
    package: See `Item`.
    english: The folder of the English pages.
    german: The folder of the German ones.
    suffix: See `files.pairs`.
    rename: See `files.pairs`.
  """

  kind: str
  package: str
  english: str
  german: str
  suffix: str | tuple[str, ...]
  rename: Callable[[str], str] = lambda page: page


def pages(root: str, manual: Manual) -> Iterator[Item]:
  """Yields paragraphs of HTML, DocBook or Mallard."""
  kind, package, english, german, suffix, rename = manual
  folders = f"{root}/{english}", f"{root}/{german}"
  application = _APPLICATIONS.get(package, "")
  for here, there in files.pairs(*folders, suffix, rename):
    if "big-page" in here:  # Repeats the others.
      continue
    ours = markup.blocks(files.read(here), application=application)
    theirs = markup.blocks(
      files.read(there), german=True, application=application
    )
    name = os.path.basename(here).removesuffix(".html").removesuffix(".en")
    aligned, exact = align(ours, theirs)
    for i, j in aligned:
      yield Item(ours[i][1], theirs[j][1], kind, package, name, i, exact)


def libreoffice_folder(root: str) -> str:
  """The folder of LibreOffice's English help."""
  return f"{root}/{_LIBREOFFICE.format('en-us', 'en-US')}"


def libreoffice_blocks(path: str) -> list[tuple[str, str]]:
  """Ids and texts of a help page's headings and paragraphs."""
  return [
    (name, text)
    for name, text in markup.blocks(files.read(path), by_id=True)
    if name and name[:3] in ("par", "hd_")
  ]


def libreoffice_help(root: str) -> Iterator[Item]:
  """Yields paragraphs of LibreOffice's help, paired by their ids."""
  english = libreoffice_folder(root)
  german = f"{root}/{_LIBREOFFICE.format('de', 'de')}"
  for here, there in files.pairs(english, german, ".html"):
    ours = libreoffice_blocks(here)
    translations = collections.defaultdict(list)
    for name, text in libreoffice_blocks(there):
      translations[name].append(text)
    number = collections.Counter(name for name, _ in ours)
    seen = collections.Counter()
    page = os.path.relpath(here, english).removesuffix(".html")
    for position, (name, text) in enumerate(ours):
      seen[name] += 1
      # A paragraph that is embedded twice has its id twice.
      if len(translations[name]) == number[name]:
        translation = translations[name][seen[name] - 1]
        yield Item(text, translation, "lohelp", "libreoffice", page, position)


def manual_pages(root: str) -> Iterator[Item]:
  """Yields paragraphs of manual pages."""
  folder = f"{root}/manpages-de/usr/share/man/de"
  for there in sorted(glob.glob(f"{folder}/man*/*.gz")):
    if os.path.islink(there):
      continue
    page = os.path.relpath(there, folder)
    originals = sorted(glob.glob(f"{root}/*/usr/share/man/{page}"))
    if not originals:
      continue
    ours = roff.blocks(files.read(originals[0]))
    theirs = roff.blocks(files.read(there))
    name = os.path.basename(there).removesuffix(".gz")
    aligned, exact = align(ours, theirs)
    for i, j in aligned:
      yield Item(
        ours[i][1], theirs[j][1], "man", "manpages-l10n", name, i, exact
      )
