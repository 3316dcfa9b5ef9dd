"""All that is there in English and German."""

from collections.abc import Iterator

from experiments.corpora.index import Index
from experiments.corpora.item import Item
from experiments.corpora.parallel import (
  descriptions,
  dictionary,
  manuals,
  messages,
)
from experiments.corpora.parallel.manuals import Manual

_DOC = "usr/share/doc"
_GNOME = "gnome-user-docs/usr/share/help"
_MATE = "mate-user-guide/usr/share/help"
_GIMP = "usr/share/gimp/2.0/help"
_HANDBOOK = f"debian-handbook/{_DOC}/debian-handbook/html"
_REFERENCE = "usr/share/debian-reference"
_DEVELOPERS = "usr/share/developers-reference"
_FAQ = f"{_DOC}/debian/FAQ"
_INSTALLATION = f"installation-guide-amd64/{_DOC}/installation-guide-amd64"
_EDU = f"{_DOC}/debian-edu-doc"
_LILYPOND = f"{_DOC}/lilypond/html/Documentation"
_KICAD = f"{_DOC}/kicad/help"
_LOCALE = "usr/share/locale/de/LC_MESSAGES"


def _with_language(page: str) -> str:
  return page.replace(".de.html", ".en.html")


def _without_language(page: str) -> str:
  return page.replace(".de.html", ".html")


_MANUALS = (
  *(
    Manual(
      "gnomehelp",
      "gnome-user-docs",
      f"{_GNOME}/C/{book}",
      f"{_GNOME}/de/{book}",
      ".page",
    )
    for book in ("gnome-help", "system-admin-guide")
  ),
  Manual(
    "docbook",
    "mate-user-guide",
    f"{_MATE}/C",
    f"{_MATE}/de",
    (".xml", ".docbook"),
  ),
  *(
    Manual(
      "docbook",
      source,
      f"{package}/{_DOC}/HTML/en",
      f"{package}/{_DOC}/HTML/de",
      (".docbook", ".docbook.bz2"),
    )
    for package, source in (
      ("kate5-data", "kate"),
      ("kmymoney-common", "kmymoney"),
    )
  ),
  Manual(
    "html",
    "gimp-help",
    f"gimp-help-en/{_GIMP}/en",
    f"gimp-help-de/{_GIMP}/de",
    ".html",
  ),
  Manual(
    "html",
    "debian-handbook",
    f"{_HANDBOOK}/en-US",
    f"{_HANDBOOK}/de-DE",
    ".html",
  ),
  Manual(
    "html",
    "debian-reference",
    f"debian-reference-en/{_REFERENCE}",
    f"debian-reference-de/{_REFERENCE}",
    ".de.html",
    _with_language,
  ),
  Manual(
    "html",
    "developers-reference",
    f"developers-reference/{_DEVELOPERS}",
    f"developers-reference-de/{_DEVELOPERS}/de",
    ".html",
  ),
  Manual(
    "html",
    "debian-faq",
    f"debian-faq/{_FAQ}",
    f"debian-faq-de/{_FAQ}/de",
    ".de.html",
    _with_language,
  ),
  Manual(
    "html",
    "installation-guide",
    f"{_INSTALLATION}/en",
    f"{_INSTALLATION}/de",
    ".html",
  ),
  Manual(
    "html",
    "debian-edu-doc",
    f"debian-edu-doc-en/{_EDU}-en",
    f"debian-edu-doc-de/{_EDU}-de",
    ".html",
  ),
  Manual(
    "html",
    "lilypond",
    f"lilypond-doc-html/{_LILYPOND}",
    f"lilypond-doc-html-de/{_LILYPOND}",
    ".de.html",
    _without_language,
  ),
  Manual(
    "html",
    "kicad",
    f"kicad-doc-en/{_KICAD}/en",
    f"kicad-doc-de/{_KICAD}/de",
    ".html",
  ),
)
# Kind, source package, and where the catalogues lie.
_CATALOGUES = (
  (
    "game",
    "wesnoth",
    "wesnoth-*/usr/share/games/wesnoth/*/locale/de/LC_MESSAGES/*.mo",
  ),
  ("game", "freeciv", f"freeciv-data/{_LOCALE}/freeciv-*.mo"),
  ("ui", "gnucash", f"gnucash-common/{_LOCALE}/*.mo"),
  (
    "ui",
    "wordpress",
    "wordpress-l10n/usr/share/wordpress/wp-content/languages/*de_DE.mo",
  ),
  ("ui", "kate", f"kate5-data/{_LOCALE}/*.mo"),
  ("ui", "kmymoney", f"kmymoney-common/{_LOCALE}/*.mo"),
)


def pairs(root: str, index: Index) -> Iterator[Item]:
  """Yields everything, neither clean nor without duplicates.

  Args:
    root: The folder of unpacked packages.
    index: The archive's index.
  """
  yield from descriptions.pairs(index)
  yield from manuals.libreoffice_help(root)
  yield from manuals.manual_pages(root)
  for manual in _MANUALS:
    yield from manuals.pages(root, manual)
  for kind, package, pattern in _CATALOGUES:
    yield from messages.catalogues(root, kind, package, pattern)
  yield from messages.mediawiki(root)
  yield from dictionary.sentences(root)
