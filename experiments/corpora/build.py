"""Builds the corpora out of Debian's packages.

    python -m experiments.corpora.build --out runs/corpora

needs Debian 12 with apt-get and dpkg-deb, and the network; or, with --no-fetch,
what an earlier run fetched. README.md says what it writes.
"""

import argparse
import json
import logging
import pathlib
import random
from collections.abc import Sequence

from experiments.corpora import (
  clean,
  fetch,
  index,
  licences,
  recut,
  samples,
  split,
  write,
)
from experiments.corpora.item import Item
from experiments.corpora.parallel import sources
from experiments.corpora.summaries import packages, pages, roundups

log = logging.getLogger(__name__)

PACKAGES = pathlib.Path(__file__).parent / "packages.txt"
_HELD_OUT = ("debian-faq", "kmymoney")  # Whole manuals.
_TRAIN_ONLY = ("ui", "wiki")  # Short strings of interfaces.
_BY_PACKAGE = ("synopsis", "lead", "digest")


def main(argv: Sequence[str] | None = None) -> None:
  """Reads the command line and builds."""
  parser = argparse.ArgumentParser(
    prog="python -m experiments.corpora.build",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    allow_abbrev=False,
  )
  parser.add_argument("--out", required=True, help="folder for all files")
  parser.add_argument(
    "--no-fetch",
    dest="fetch",
    action="store_false",
    help="use the packages that are there",
  )
  arguments = parser.parse_args(argv)
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  build(pathlib.Path(arguments.out), fetch_packages=arguments.fetch)


def build(out: pathlib.Path, *, fetch_packages: bool) -> None:
  """Writes all corpora.

  Args:
    out: Where they go; the packages are kept there too.
    fetch_packages: Whether to download what is missing.

  Raises:
    FileNotFoundError: If nothing is to be fetched and nothing is there.
  """
  root = out / "root"
  if fetch_packages:
    fetch.fetch(str(out), PACKAGES.read_text(encoding="utf-8").split())
  elif not root.is_dir():
    raise FileNotFoundError(
      f"There are no packages in {root}; leave out --no-fetch, to fetch them."
    )
  _write_text(out / "licences.txt", licences.table(str(root)))
  known = index.load(str(out))
  log.info(
    "%d descriptions, %d of them translated",
    len(known.english),
    len(known.german),
  )
  order = random.Random(split.SEED)
  with open(out / "samples.txt", "w", encoding="utf-8") as file:
    report = {
      "parallel": _build_parallel(out, known, order, file),
      "summarisation": _build_summaries(out, known, order, file),
    }
  _write_text(
    out / "report.json",
    json.dumps(report, indent=1, sort_keys=True, ensure_ascii=False),
  )


def _build_parallel(out, known, order, file):
  found = clean.clean_pairs(sources.pairs(str(out / "root"), known))
  parts, dropped = split.split(
    found.kept,
    _pair_group,
    sides=(_source, _target),
    train_only=lambda item: item.kind in _TRAIN_ONLY,
    held_out=_is_held_out,
  )
  written = {}
  for name, items in parts.items():
    order.shuffle(items)
    corpora = {f"ende_{name}": items}
    if name != split.HELD_OUT:
      corpora[f"ende_sent_{name}"] = list(recut.sentence_pairs(items))
      corpora[f"ende_long_{name}"] = list(recut.windows(items))
    for corpus, rows in corpora.items():
      if name != split.HELD_OUT:
        order.shuffle(rows)
      write.write(str(out / f"{corpus}.tsv.gz"), rows)
      written[corpus] = write.statistics(rows)
  tables = write.by_source(item for items in parts.values() for item in items)
  for item in samples.draw(tables, order):
    samples.write_pair(file, item)
  number = min(samples.PER_SOURCE, len(found.misaligned))
  for score, item in order.sample(found.misaligned, number):
    samples.write_pair(file, item, f"REJECTED by lexicon {score:.2f} ")
  log.info("the parallel corpora are written")
  return {
    "rejected": found.rejected,
    "leak_check": dropped,
    "sources": {
      name: write.statistics(items) for name, items in tables.items()
    },
    "files": written,
  }


def _build_summaries(out, known, order, file):
  root = str(out / "root")
  items = clean.clean_summaries(
    item
    for found in (
      packages.summaries(known),
      roundups.summaries(known),
      pages.manual_pages(root),
      pages.gnome_help(root),
      pages.libreoffice_help(root),
    )
    for item in found
  )
  parts, dropped = split.split(items, _summary_group, sides=(_source,))
  del parts[split.HELD_OUT]
  written = {}
  for name, rows in parts.items():
    order.shuffle(rows)
    write.write(str(out / f"summ_{name}.tsv.gz"), rows)
    written[f"summ_{name}"] = write.statistics(rows)
  tables = write.by_source(item for rows in parts.values() for item in rows)
  for item in samples.draw(tables, order):
    samples.write_summary(file, item)
  log.info("the summaries are written")
  return {
    "leak_check": dropped,
    "sources": {name: write.statistics(rows) for name, rows in tables.items()},
    "files": written,
  }


def _source(item: Item) -> str:
  return item.source


def _target(item: Item) -> str:
  return item.target


def _is_held_out(item: Item) -> bool:
  return item.package in _HELD_OUT and item.kind not in (*_TRAIN_ONLY, "ddtp")


def _pair_group(item: Item) -> str:
  if item.kind == "ddtp":
    return index.base_source(item.package)
  group = item.document if item.group is None else item.group
  return f"{item.kind}:{item.package}:{group}"


def _summary_group(item: Item) -> str:
  if item.kind in _BY_PACKAGE:
    return index.base_source(item.package)
  return f"{item.package}:{item.document}"


def _write_text(path: pathlib.Path, text: str) -> None:
  path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
  main()
