"""One row of a corpus, with what splitting and joining need to know."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Item:
  """A text and its translation or summary.

  Attributes:
    source: The text.
    target: Its translation or summary.
    kind: The kind of text: "ddtp", "man", "synopsis" ...
    package: The Debian source package, or the archive's section of a roundup.
    document: The page, the catalogue or the binary package.
    position: Where it stands in its document; None if order means nothing.
    exact: Whether both sides of its document have the same structure, so that
      the pairing is no guess.
    group: Rows of one group stay in one split; None for those of a document.
    part: "train", "validation" or "test", if that is settled already.
  """

  source: str
  target: str
  kind: str
  package: str
  document: str | None = None
  position: int | None = None
  exact: bool = True
  group: str | None = None
  part: str | None = None

  @property
  def origin(self) -> str:
    """kind:package, and /document where that says more."""
    short = f"{self.kind}:{self.package}"
    if self.document in (None, self.package):
      return short
    return f"{short}/{self.document}"
