"""A task's texts, encoded, beside the pair that is to decode them."""

import dataclasses
from typing import Any

from experiments.decoding.batching import encode
from experiments.decoding.pair import Pair, PairConfig
from experiments.decoding.task import Example, Task
from experiments.records import checksum
from specdec_jax import lm


@dataclasses.dataclass(frozen=True)
class Workload:
  """What a run decodes, and with what.

  Attributes:
    pair: The models, in memory.
    examples: The texts.
    encoded: Token ids of each text.
    manifest: The part of a run's manifest that names all of these.
  """

  pair: Pair
  examples: list[Example]
  encoded: list[list[int]]
  manifest: dict[str, Any]


def load(
  pair: PairConfig,
  task: Task,
  *,
  max_input_length: int,
  prompt_tokens: int | None = None,
) -> Workload:
  """Reads texts and models; the models, which take longest, come last.

  Args:
    pair: The models.
    task: The texts.
    max_input_length: Most tokens of a text, EOS included.
    prompt_tokens: For language models, which go on with a text and so read no
      EOS: how many of its tokens, at most, are the prompt; None for all.

  Raises:
    FileNotFoundError: If something is not there.
    ValueError: If a text is longer, or something does not fit.
  """
  vocabulary = pair.load_vocabulary()
  examples = task.read()
  encoded = encode(
    examples,
    vocabulary,
    max_input_length=max_input_length,
    source=task.source,
  )
  models = pair.load(vocabulary)
  if isinstance(models.target, lm.LMModel):
    encoded = [each[:-1][:prompt_tokens] for each in encoded]
  elif prompt_tokens is not None:
    raise ValueError(
      f"prompt_tokens is {prompt_tokens}, but {pair.target} is no language"
      " model, and reads whole texts; set it to None."
    )
  return Workload(
    models,
    examples,
    encoded,
    {
      "pair": dataclasses.asdict(pair) | {"weights": models.checksum()},
      "task": dataclasses.asdict(task)
      | {"texts": checksum([each[:2] for each in examples])},
      "max_input_length": max_input_length,
      "prompt_tokens": prompt_tokens,
    },
  )
