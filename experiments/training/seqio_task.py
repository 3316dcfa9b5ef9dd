"""Examples of a seqio task, for the trainer."""

import dataclasses
import logging
import random
from collections.abc import Iterator, Sequence

from experiments.paths import resolve
from experiments.training.text import EncodedRow, TokenPair

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class SeqioTask:
  """A task of `specdec_jax.tasks`, and what it needs.

  Attributes:
    name: "wmt14_ende", "ende" ...; any task or mixture that is registered.
    vocabulary: A SentencePiece model, that of the model to be trained.
    held_out: The folder of the corpora's validation and test splits.
    train: The folder of their training split; None if it is not needed.
    origins: Which rows of them to use; empty for all.
    data_dir: Where TensorFlow Datasets keeps its files; None for its default.
  """

  name: str
  vocabulary: str
  held_out: str = "experiments/assets/corpora"
  train: str | None = None
  origins: Sequence[str] = ()
  data_dir: str | None = None

  def register(self) -> None:
    """Registers all tasks with this one's vocabulary.

    Raises:
      ValueError: If none of them has this one's name.
    """
    import seqio
    import tensorflow as tf

    from specdec_jax.tasks import corpora, published

    # TensorFlow would take all of an accelerator's memory.
    tf.config.set_visible_devices([], "GPU")
    vocabulary = resolve(self.vocabulary)
    published.register(vocabulary, data_dir=self.data_dir)
    corpora.register(
      vocabulary,
      held_out=resolve(self.held_out),
      train=None if self.train is None else resolve(self.train),
      origins=tuple(self.origins),
    )
    known = {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}
    if self.name not in known:
      raise ValueError(
        f"SeqioTask.name is {self.name!r}; there are"
        f" {', '.join(sorted(known))}."
      )

  def load(
    self, split: str, *, max_tokens: int, limit: int | None = None
  ) -> list[TokenPair]:
    """Reads each example once; logs how many are too long and left out.

    A task's examples come in order. Those of a mixture's tasks are drawn in
    turns, by the mixture's rates and always alike.

    Args:
      split: "train", "validation" or "test".
      max_tokens: Examples with a longer side, EOS included, are left out.
      limit: Reads no more examples once so many are kept; None for all.

    Returns:
      Source and target ids, each with its EOS; a language model has no source,
      so its source ids are empty.

    Raises:
      FileNotFoundError: If a file of the corpora is missing.
      ValueError: If there is no such task or split, a row is bad, or nothing
        is left.
    """
    kept, left_out = [], 0
    for row in self._rows(split):
      if len(kept) == limit:
        break
      if row.longest <= max_tokens:
        kept.append(row[:2])
      else:
        left_out += 1
    log.info(
      "%s, %s: %d examples, %d left out for a side of more than %d tokens",
      self.name,
      split,
      len(kept),
      left_out,
      max_tokens,
    )
    if not kept:
      raise ValueError(
        f"No example of {self.name}, {split}, has at most {max_tokens} tokens"
        " a side; allow more."
      )
    return kept

  def load_rows(self, split: str) -> list[EncodedRow]:
    """Reads each example once, whatever its length, in the order of `load`.

    Raises:
      FileNotFoundError: If a file of the corpora is missing.
      ValueError: If there is no such task or split, or a row is bad.
    """
    return list(self._rows(split))

  def _rows(self, split: str) -> Iterator[EncodedRow]:
    import seqio

    self.register()
    provider = seqio.get_mixture_or_task(self.name)
    if split not in provider.splits:
      raise ValueError(
        f"{self.name} has no split {split!r}; there are"
        f" {', '.join(provider.splits)}."
      )
    return map(_row, _examples(provider, split))


def _examples(provider, split: str) -> Iterator[dict]:
  """Yields every example once; a mixture's own dataset ends with one task."""
  tasks = getattr(provider, "tasks", [provider])
  rates = [1.0]
  if len(tasks) > 1:
    rates = [provider.get_rate(task) for task in tasks]
  sources = [
    task.get_dataset(
      sequence_length=None, split=split, shuffle=False, num_epochs=1
    ).as_numpy_iterator()
    for task in tasks
  ]
  order = random.Random(0)
  while sources:
    (index,) = order.choices(range(len(sources)), rates)
    example = next(sources[index], None)
    if example is None:
      del sources[index], rates[index]
    else:
      yield example


def _row(example) -> EncodedRow:
  reference = example.get("targets_pretokenized")
  return EncodedRow(
    source=example["inputs"].tolist() if "inputs" in example else [],
    target=example["targets"].tolist(),
    reference=None if reference is None else reference.decode(),
    origin=example.get("origin", b"").decode(),
  )
