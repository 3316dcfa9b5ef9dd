import gzip
import json

import pytest

from experiments.corpora import build, index, split
from experiments.paths import REPOSITORY
from tests.experiments.corpora import packages

SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
  folder = tmp_path_factory.mktemp("corpora")
  packages.write(folder)
  build.main(["--no-fetch", "--out", str(folder)])
  return folder


def rows(out, *names) -> set[tuple[str, str, str]]:
  found = set()
  for name in names:
    with gzip.open(out / f"{name}.tsv.gz", "rt", encoding="utf-8") as lines:
      found |= {tuple(line.rstrip("\n").split("\t")) for line in lines}
  return found


def test_every_kind_of_pair_is_found(out):
  assert rows(out, *(f"ende_{name}" for name in SPLITS)) == {
    (
      "small editor for very large texts",
      "kleiner Editor für sehr große Texte",
      "ddtp:reed",
    ),
    (packages.EDITOR, packages.EDITOR_DE, "ddtp:reed"),
    (packages.PLUGINS, packages.PLUGINS_DE, "ddtp:reed"),
    (
      "Opens a file that you choose from the list.",
      "Öffnet eine Datei, die Sie aus der Liste wählen.",
      "lohelp:libreoffice/open",
    ),
    (
      "You can choose more than one of them at once.",
      "Sie können auch mehrere davon auf einmal wählen.",
      "lohelp:libreoffice/open",
    ),
    (
      "Press Ctrl+S to save it.",
      "Drücken Sie Strg+S zum Speichern.",
      "docbook:kate/index.docbook",
    ),
    (
      "tool - list what is there",
      "tool - zeigt, was da ist",
      "man:manpages-l10n/tool.1",
    ),
    (
      "tool lists all the files that it is given.",
      "tool listet alle Dateien auf, die ihm gegeben werden.",
      "man:manpages-l10n/tool.1",
    ),
    (
      "show also the files that are hidden",
      "zeigt auch die Dateien, die versteckt sind",
      "man:manpages-l10n/tool.1",
    ),
    (
      "You are at war with all of them.",
      "Sie sind im Krieg mit ihnen allen.",
      "game:freeciv/freeciv-core",
    ),
    (
      "They are at peace with you.",
      "Sie haben Frieden mit Ihnen.",
      "game:freeciv/freeciv-core",
    ),
    (
      "This page is in the list of all pages.",
      "Diese Seite ist in der Liste aller Seiten.",
      "wiki:mediawiki/a",
    ),
    (
      "The dog sleeps in front of the door.",
      "Der Hund schläft vor der Tür.",
      "dict:ding",
    ),
  }


def test_sentences_are_cut_from_the_paragraphs(out):
  sentences = rows(out, *(f"ende_sent_{name}" for name in SPLITS))
  editor = {row for row in sentences if row[0].startswith("Reed is")}
  assert editor == {
    (
      "Reed is a small editor for plain text.",
      "Reed ist ein kleiner Editor für reinen Text.",
      "ddtp:reed",
    )
  }


def test_long_texts_are_adjacent_paragraphs(out):
  assert rows(out, *(f"ende_long_{name}" for name in SPLITS)) <= {
    (
      f"{packages.EDITOR} {packages.PLUGINS}",
      f"{packages.EDITOR_DE} {packages.PLUGINS_DE}",
      "ddtp:reed",
    )
  }


def test_a_description_and_its_line_are_a_summary(out):
  assert rows(out, *(f"summ_{name}" for name in SPLITS)) == {
    (
      f"{packages.EDITOR} Features: - {packages.PLUGINS}",
      "small editor for very large texts",
      "synopsis:reed",
    )
  }


def test_what_was_rejected_is_reported(out):
  report = json.loads((out / "report.json").read_text(encoding="utf-8"))
  rejected = report["parallel"]["rejected"]
  assert rejected["game:freeciv"] == {"all": 4, "short": 1, "placeholder": 1}
  assert report["parallel"]["files"]["ende_ood"] == {"pairs": 0}
  assert "reed\tGPL-2+\tdocs: GFDL-1.2+\n" in (out / "licences.txt").read_text()
  assert "[dict:ding]" in (out / "samples.txt").read_text(encoding="utf-8")


def test_the_same_packages_give_the_same_bytes(out, tmp_path):
  packages.write(tmp_path)
  build.main(["--no-fetch", "--out", str(tmp_path)])
  names = sorted(path.name for path in out.glob("*.*") if path.is_file())
  assert "ende_long_train.tsv.gz" in names
  for name in names:
    assert (tmp_path / name).read_bytes() == (out / name).read_bytes(), name


def test_the_command_needs_packages(tmp_path):
  with pytest.raises(FileNotFoundError, match="leave out --no-fetch"):
    build.main(["--no-fetch", "--out", str(tmp_path)])
  assert not list(tmp_path.iterdir())


def test_a_machine_without_apt_is_told(tmp_path, monkeypatch):
  monkeypatch.setenv("PATH", "")
  with pytest.raises(FileNotFoundError, match="no apt-get here.*Debian 12"):
    build.main(["--out", str(tmp_path)])


def test_the_package_list_is_whole():
  names = build.PACKAGES.read_text(encoding="utf-8").split()
  assert len(names) == len(set(names)) == 44
  assert {"manpages-de", "trans-de-en", "libreoffice-help-de"} <= set(names)


@pytest.mark.parametrize(
  ("name", "buckets"), [("validation", range(20)), ("test", range(20, 40))]
)
def test_the_shipped_splits_are_those_of_this_code(name, buckets):
  shipped = rows(REPOSITORY / "experiments/assets/corpora", f"ende_{name}")
  sources = {
    origin.removeprefix("ddtp:").split("/")[0]
    for _, _, origin in shipped
    if origin.startswith("ddtp:")
  }
  assert len(sources) > 100
  assert {split.bucket(index.base_source(each)) for each in sources} <= set(
    buckets
  )
