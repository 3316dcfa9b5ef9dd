import gzip

import pytest

from experiments.corpora.formats import description, files, markup, roff


def test_a_page_is_cut_into_blocks():
  page = """
    <html><head><title>No</title></head><body>
    <h2>2.1. The   window</h2>
    <p>It has <b>bold</b><br>text &amp; more.</p>
    <ul><li>One</li><li class="toc">Two</li></ul>
    <div class="navheader"><div>Next</div> page</div>
    </body></html>"""
  assert markup.blocks(page) == [
    ("h2", "The window"),
    ("p", "It has bold text & more."),
    ("li", "One"),
  ]


def test_keys_and_menus_are_spelled_out():
  page = (
    "<para>Press <keycombo>&Ctrl; <keycap>O</keycap></keycombo> or choose"
    " <menuchoice><guimenu>File</guimenu> <guimenuitem>Open</guimenuitem>"
    "</menuchoice> in &kappname;, &eg; now.</para>"
  )
  assert markup.blocks(page, application="Kate") == [
    ("para", "Press Ctrl+O or choose File > Open in Kate, e.g. now.")
  ]
  assert markup.blocks(page, german=True, application="Kate") == [
    ("para", "Press Strg+O or choose File > Open in Kate, z. B. now.")
  ]


def test_blocks_are_named_by_their_ids():
  page = '<h1 id="hd_1">1. Top</h1><p id="par_2">Text</p><p class="code">x</p>'
  assert markup.blocks(page, by_id=True) == [
    ("hd_1", "1. Top"),
    ("par_2", "Text"),
  ]


def test_a_manual_page_is_cut_into_blocks():
  page = "\n".join(
    [
      ".SH NAME",
      r"ls \- list \fIall\fR files",
      ".SH OPTIONS",
      ".TP",
      r".BR \-a ", ", "
      r"\fB\-\-all\fR",
      r"do \(lqnot\(rq ignore",
      r"entries \[u00E4] with .",
      ".nf",
      "verbatim",
      ".fi",
      r'.\" a comment',
      ".PP",
      "The end.",
    ]
  )  # fmt: skip
  assert roff.blocks(page) == [
    ("SH", "NAME"),
    ("PP", "ls - list all files"),
    ("SH", "OPTIONS"),
    ("TPt", "-a"),
    ("TPd", ", --all do \u201cnot\u201d ignore entries ä with ."),
    ("PP", "The end."),
  ]
  assert roff.blocks(".Dd today\n" + page) == []


def test_a_description_is_cut_into_parts():
  text = (
    "\n First line\n and second.\n .\n Then:\n  * one\n    more\n  * two\n ."
    "\n   verbatim"
  )
  parts = description.parts(text)
  assert parts == [
    ("p", "First line and second."),
    ("p", "Then:"),
    ("li", "one more"),
    ("li", "two"),
    ("v", "verbatim"),
  ]
  assert description.plain(parts) == (
    "First line and second. Then: - one more - two"
  )


@pytest.mark.parametrize("name", ["a.page", "a.page.gz"])
def test_packed_files_are_read(tmp_path, name):
  data = "größer".encode()
  (tmp_path / name).write_bytes(
    gzip.compress(data) if name.endswith("gz") else data
  )
  assert files.read(str(tmp_path / name)) == "größer"


def test_pages_that_both_have(tmp_path):
  for page in ("en/a.html", "en/sub/b.html", "de/a.de.html", "de/c.de.html"):
    path = tmp_path / page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
  (tmp_path / "de" / "sub").mkdir()
  (tmp_path / "de" / "sub" / "b.de.html").symlink_to(tmp_path / "de/a.de.html")
  pairs = files.pairs(
    str(tmp_path / "en"),
    str(tmp_path / "de"),
    ".de.html",
    lambda page: page.replace(".de.html", ".html"),
  )
  assert list(pairs) == [
    (str(tmp_path / "en/a.html"), str(tmp_path / "de/a.de.html"))
  ]
