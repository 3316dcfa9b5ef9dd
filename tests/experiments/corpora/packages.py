"""Unpacked packages and apt's lists, a few files of each kind, by hand."""

import gzip
import json
import pathlib
import struct

EDITOR = (
  "Reed is a small editor for plain text. It opens very large files at once,"
  " shows more than one of them in a window, and keeps what you have not saved."
)
EDITOR_DE = (
  "Reed ist ein kleiner Editor für reinen Text. Er öffnet sehr große Dateien"
  " sofort, zeigt mehrere davon in einem Fenster und behält, was Sie nicht"
  " gespeichert haben."
)
PLUGINS = (
  "The plugins check the spelling of a text, sort its lines, and send it to a"
  " printer that is in the same network."
)
PLUGINS_DE = (
  "Die Plugins prüfen die Rechtschreibung eines Textes, sortieren seine Zeilen"
  " und senden ihn an einen Drucker, der im selben Netz ist."
)

PACKAGES = """\
Package: reed
Source: reed (1.2)
Section: editors

Package: reed-fonts
Section: contrib/fonts
"""

TRANSLATION_EN = f"""\
Package: reed
Description-md5: 11
Description-en: small editor for very large texts
 {EDITOR}
 .
   reed --help
 .
 Features:
  * {PLUGINS}

Package: reed-fonts
Description-md5: 22
Description-en: transitional dummy package
 This is a transitional package.
"""

TRANSLATION_DE = f"""\
Package: reed
Description-md5: 11
Description-de: kleiner Editor für sehr große Texte
 {EDITOR_DE}
 .
   reed --help
 .
 Funktionen:
  * {PLUGINS_DE}
"""

HELP = """\
<!DOCTYPE html>
<html><head><title>{title}</title></head><body>
<nav>{title}</nav>
<h1 id="hd_1">{title}</h1>
<p id="par_1">{first}</p>
<p id="par_2"><span class="MAC">Command</span>{second}</p>
<pre id="par_3">reed.open("file")</pre>
</body></html>
"""

MANUAL = """\
<!DOCTYPE article [<!ENTITY x "y">]>
<article><title>&kappname;</title>
<para>{press} <keycombo>&Ctrl; <keycap>S</keycap></keycombo> {save}</para>
</article>
"""

PAGE = r"""
.TH TOOL 1
.SH NAME
tool \- {line}
.SH {description}
.B tool
{sentence}
.\" A comment.
.nf
tool --example
.fi
.TP
\fB\-a\fR, \fB\-\-all\fR
{option}
"""

DING = """\
# A comment.
Der Hund schläft vor der Tür. {m} :: The dog sleeps in front of the door. [x]
etw. tun, was man nicht darf :: to do sth. that you are not allowed to do
Haus; Gebäude :: house; building
"""


def write(out: pathlib.Path) -> None:
  """Writes root/ and apt/, as if they had been fetched."""
  root = out / "root"
  lists = out / "apt" / "lists"
  _text(lists / "debian_main_binary-amd64_Packages", PACKAGES)
  _gzip(lists / "debian_main_i18n_Translation-en.gz", TRANSLATION_EN)
  _text(lists / "debian_main_i18n_Translation-de", TRANSLATION_DE)

  _text(
    root / "reed/usr/share/doc/reed/copyright",
    "Files: *\nLicense: GPL-2+\n\nFiles: doc/*\nLicense: GFDL-1.2+\n",
  )

  office = "usr/share/libreoffice/help"
  _text(
    root / f"libreoffice-help-en-us/{office}/en-US/text/open.html",
    HELP.format(
      title="Opening Files",
      first="Opens a file that you choose from the list.",
      second="You can choose more than one of them at once.",
    ),
  )
  _text(
    root / f"libreoffice-help-de/{office}/de/text/open.html",
    HELP.format(
      title="Dateien öffnen",
      first="Öffnet eine Datei, die Sie aus der Liste wählen.",
      second="Sie können auch mehrere davon auf einmal wählen.",
    ),
  )

  kate = root / "kate5-data/usr/share/doc/HTML"
  _text(
    kate / "en/index.docbook", MANUAL.format(press="Press", save="to save it.")
  )
  _text(
    kate / "de/index.docbook",
    MANUAL.format(press="Drücken Sie", save="zum Speichern."),
  )

  _gzip(
    root / "coreutils/usr/share/man/man1/tool.1.gz",
    PAGE.format(
      line="list what is there",
      description="DESCRIPTION",
      sentence="lists all the files that it is given.",
      option="show also the files that are hidden",
    ),
  )
  _gzip(
    root / "manpages-de/usr/share/man/de/man1/tool.1.gz",
    PAGE.format(
      line="zeigt, was da ist",
      description="BESCHREIBUNG",
      sentence="listet alle Dateien auf, die ihm gegeben werden.",
      option="zeigt auch die Dateien, die versteckt sind",
    ),
  )

  _catalogue(
    root / "freeciv-data/usr/share/locale/de/LC_MESSAGES/freeciv-core.mo",
    {
      "": "Language: de",
      "help^You are at war with all of them.\n\nThey are at peace with you.": (
        "Sie sind im Krieg mit ihnen allen.\n\nSie haben Frieden mit Ihnen."
      ),
      "You have %d ships in this port.": "Sie haben %d Schiffe im Hafen.",
    },
  )

  wiki = root / "mediawiki/usr/share/mediawiki/languages/i18n"
  _text(
    wiki / "en.json",
    json.dumps({"a": "This page is in the [[list|list of all pages]]."}),
  )
  _text(
    wiki / "de.json",
    json.dumps({"a": "Diese Seite ist in der [[list|Liste aller Seiten]]."}),
  )

  _text(root / "trans-de-en/usr/share/trans/de-en", DING)


def _text(path: pathlib.Path, text: str) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text, encoding="utf-8")


def _gzip(path: pathlib.Path, text: str) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(gzip.compress(text.encode()))


def _catalogue(path: pathlib.Path, messages: dict[str, str]) -> None:
  """Writes a compiled catalogue: a head, two tables, the texts."""
  number = len(messages)
  sides = [list(messages), list(messages.values())]
  start = 28 + 16 * number
  tables, texts = b"", b""
  for side in sides:
    for each in side:
      data = each.encode()
      tables += struct.pack("<2I", len(data), start + len(texts))
      texts += data + b"\0"
  head = struct.pack("<7I", 0x950412DE, 0, number, 28, 28 + 8 * number, 0, 0)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(head + tables + texts)
