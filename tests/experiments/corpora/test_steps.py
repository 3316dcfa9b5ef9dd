import dataclasses

import pytest

from experiments.corpora import (
  boilerplate,
  clean,
  index,
  lexicon,
  quality,
  recut,
  split,
)
from experiments.corpora.align import align
from experiments.corpora.item import Item

GERMAN = "Die Datei ist nicht in diesem Ordner, sondern auf dem Server."


@pytest.mark.parametrize(
  ("source", "target", "reason"),
  [
    ("The file is on the server, not in this folder.", GERMAN, None),
    ("The file", GERMAN, "short"),
    ("the " * 221, GERMAN, "long"),
    ("The file %s is not in this folder at all.", GERMAN, "placeholder"),
    ("The file is described in . For more, go on.", GERMAN, "dangling"),
    ("The file 1234567 12345678 is 123456789 in it.", GERMAN, "symbols"),
    ("The file a=b|c=d is in this folder, not there.", GERMAN, "markup"),
    (
      "The file is on the server, not in this folder.",
      f"{GERMAN} \u03b1\u03b2",
      "script",
    ),
    ("The file is on the server.", GERMAN * 2, "ratio"),
    (GERMAN, GERMAN, "source-language"),
    (
      "The file is on the server, not in this folder.",
      "The file is on the server, not in this one.",
      "target-language",
    ),
    (
      "Open Office Writer Calc Impress Draw Math of Base",
      "Open Office Writer Calc Impress Draw Math und Base",
      "untranslated",
    ),
  ],
)
def test_a_pair_that_is_no_translation(source, target, reason):
  assert quality.reason_to_reject(source, target) == reason


def test_like_structures_are_paired_as_they_are():
  one = [("h1", "A"), ("p", "B"), ("p", "C")]
  other = [("h1", "X"), ("p", "Y"), ("p", "Z")]
  assert align(one, other) == ([(0, 0), (1, 1), (2, 2)], True)


def test_an_extra_paragraph_is_left_out():
  one = [
    ("h1", "Installing"),
    ("p", "Run apt-get install first."),
    ("p", "Only the English has this long paragraph about nothing at all."),
    ("p", "Then open /etc/fstab."),
  ]
  other = [
    ("h1", "Installation"),
    ("p", "Starten Sie apt-get install zuerst."),
    ("p", "Dann öffnen Sie /etc/fstab."),
  ]
  assert align(one, other) == ([(0, 0), (1, 1), (3, 2)], False)
  assert align(one, []) == ([], False)


def test_a_lexicon_finds_a_pair_that_does_not_belong_together():
  words = [
    ("window", "fenster"),
    ("button", "schaltfläche"),
    ("printer", "drucker"),
    ("folder", "ordner"),
    ("network", "netzwerk"),
  ]
  pairs = [
    Item(f"{a[0]} {b[0]}", f"{a[1]} {b[1]}", "html", "x")
    for a in words
    for b in words
    if a != b
  ]
  learned = lexicon.learn(pairs)
  assert learned["window"][0] == "fenster"
  source = "window button printer folder network"
  right = Item(source, " ".join(pair[1] for pair in words), "html", "x")
  wrong = dataclasses.replace(right, target="etwas ganz anderes steht hier")
  assert lexicon.score(right, learned) == (1.0, 5)
  assert lexicon.score(wrong, learned) == (0.0, 5)
  assert not lexicon.is_misaligned(right, 1.0, 5)
  assert lexicon.is_misaligned(wrong, 0.0, 5)
  by_hand = dataclasses.replace(wrong, kind="dict")
  assert not lexicon.is_misaligned(by_hand, 0.0, 5)
  # Where the pairing was a guess, a lower score is a sign already.
  guess = dataclasses.replace(right, exact=False)
  assert lexicon.is_misaligned(guess, 0.45, 5)
  assert not lexicon.is_misaligned(right, 0.45, 5)


def test_boilerplate_is_capped():
  items = [
    Item(f"This package holds the fonts of name{i}", "", "ddtp", "x")
    for i in range(80)
  ]
  other = Item("Something else", "", "ddtp", "x")
  kept = boilerplate.cap([*items, other], lambda item: item.source, most=12)
  assert kept == [*items[:12], other]


def test_numbers_of_headings_and_duplicates():
  heading = Item(
    "2.1. How to open a file that is new",
    "2.1. Wie man eine Datei öffnet, die neu ist",
    "html",
    "x",
    "page",
  )
  again = dataclasses.replace(heading, document="other")
  found = clean.clean_pairs([heading, again])
  assert [item.source for item in found.kept] == [
    "How to open a file that is new"
  ]
  assert found.rejected == {"html:x": {"all": 2, "duplicate": 1}}


def numbered(document: str, text: str) -> Item:
  return Item(text, f"auf Deutsch {text}", "html", "x", document)


def spell(document: str) -> str:
  """Its number in letters, since digits do not tell texts apart."""
  return document.translate(str.maketrans("0123456789", "abcdefghij"))


def test_splits_keep_groups_and_share_no_near_duplicates():
  documents = [f"page{i}" for i in range(400)]
  items = [
    numbered(each, " ".join(f"{spell(each)}{letter}" for letter in side))
    for each in documents
    for side in ("abcdef", "ghijkl")
  ]
  held = next(each for each in documents[1:] if split.bucket(each) < 20)
  trained = next(each for each in documents[1:] if split.bucket(each) >= 40)
  text = "one two three four five six seven eight nine ten"
  items += [
    numbered(held, text),
    numbered(trained, f"{text} and a little more"),
  ]
  parts, dropped = split.split(
    items,
    lambda item: item.document,
    sides=(lambda item: item.source,),
    held_out=lambda item: item.document == documents[0],
  )
  of = {
    name: {item.document for item in found} for name, found in parts.items()
  }
  assert of["ood"] == {documents[0]}
  assert all(split.bucket(each) < 20 for each in of["validation"])
  assert all(20 <= split.bucket(each) < 40 for each in of["test"])
  assert of["train"]
  assert of["test"]
  assert held in of["validation"]
  assert dropped["validation"]["train_dropped"] == 1
  assert not any(item.source.startswith(text) for item in parts["train"])
  assert any(item.source == text for item in parts["validation"])


def test_what_is_settled_or_short():
  long_text = "one two three four five six"
  items = [
    Item(long_text, "", "roundup", "x", part="test"),
    Item("one two", "", "roundup", "x", part="test"),
    Item("seven eight", "", "ui", "x", part="train"),
  ]
  parts, _ = split.split(
    items, lambda item: "", sides=(lambda item: item.source,)
  )
  assert parts["test"] == items[:1]
  assert parts["train"] == items[2:]


def test_sentences_do_not_end_at_abbreviations():
  assert recut.sentences("It is, e.g. Here, fine. Next one! (Last) it is") == [
    "It is, e.g. Here, fine.",
    "Next one!",
    "(Last) it is",
  ]
  assert recut.sentences("Text, Bilder usw. Alles ist da. Mehr nicht.") == [
    "Text, Bilder usw. Alles ist da.",
    "Mehr nicht.",
  ]


def test_windows_are_adjacent_paragraphs():
  items = [
    Item(f"s{i}", "wort " * 30, "html", "x", "page", position)
    for i, position in enumerate((0, 1, 2, 9))
  ]
  without_position = Item("s", "wort " * 60, "ui", "x", "page")
  (window,) = recut.windows([*items[::-1], without_position], least=60)
  assert window.source in ("s0 s1", "s0 s1 s2")
  assert window.target.split() == ["wort"] * 30 * len(window.source.split())


def test_versions_of_a_source_are_one_family():
  names = ["gcc-12", "llvm-toolchain-14", "python3.11", "perl", "7zip"]
  assert list(map(index.base_source, names)) == [
    "gcc",
    "llvm-toolchain",
    "python",
    "perl",
    "7zip",
  ]
