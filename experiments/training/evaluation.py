"""How good a model is: its loss on held-out text, and what it writes itself.

And how good its early exits are, as drafts of it.
"""

import dataclasses
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

import specdec_jax as sd
from experiments.training import model as training_model
from experiments.training.text import TokenPair
from specdec_jax import t5
from specdec_jax.array_typing import Params
from specdec_jax.base import DecoderModel
from specdec_jax.t5.vocabulary import EOS_ID, SentencePieceVocabulary
from specdec_jax.tasks import metrics
from specdec_jax.training.acceptance import make_acceptance_step
from specdec_jax.training.batching import Batch, Batching, in_order
from specdec_jax.training.distillation import Divergence

_METRICS: dict[str, tuple[str, Callable, Callable[[], str]]] = {
  "bleu": ("sacrebleu", metrics.bleu, metrics.bleu_signature),
  "rouge": ("rouge_score", metrics.rouge, metrics.rouge_signature),
}

_NO_SCORE = "set train.score to None"


@dataclasses.dataclass(frozen=True)
class GreedyScore:
  """A metric of greedy outputs.

  Attributes:
    metric: "bleu" or "rouge".
    examples: How many validation examples to decode: the first.
    max_new_tokens: Longest output, EOS included.
    tokens_per_batch: Padded source tokens that are decoded side by side.
  """

  metric: str
  examples: int = 64
  max_new_tokens: int = 96
  tokens_per_batch: int = 2048

  def __post_init__(self):
    _check_known(self.metric, "GreedyScore.metric", _NO_SCORE)
    for field in ("examples", "max_new_tokens", "tokens_per_batch"):
      if getattr(self, field) < 1:
        raise ValueError(
          f"GreedyScore.{field} is {getattr(self, field)}; it must be positive."
        )

  def check_installed(self) -> None:
    """Checks that the metric can be computed.

    Raises:
      ModuleNotFoundError: If its package is missing; says how to get it.
    """
    find_metric(self.metric, "GreedyScore.metric", _NO_SCORE)

  def __call__(
    self,
    model: DecoderModel,
    params: Params,
    pairs: Sequence[TokenPair],
    vocabulary: SentencePieceVocabulary,
    widths: Sequence[int],
  ) -> dict[str, float]:
    """Decodes and compares.

    Args:
      model: The model.
      params: Its parameters.
      pairs: Validation examples; references are the texts of their targets.
      vocabulary: Turns ids into text.
      widths: What sources are padded to, ascending.
    """
    pairs = pairs[: self.examples]
    settings = Batching(
      tokens=max(self.tokens_per_batch, max(widths)), widths=tuple(widths)
    )
    references, outputs = [], []
    for batch in in_order(pairs, settings):
      rows = int(np.sum(batch.inputs.any(axis=1)))
      tokens = _greedy(model, params, batch.inputs, rows, self.max_new_tokens)
      outputs += [vocabulary.decode(row) for row in tokens[:rows].tolist()]
      references += [
        vocabulary.decode(row) for row in batch.targets[:rows].tolist()
      ]
    _, metric, _ = _METRICS[self.metric]
    return {
      f"validation_{name}": value
      for name, value in metric(references, outputs).items()
    }


def held_out_loss(
  eval_step: Callable, params: Params, batches: Iterable[Batch]
) -> dict[str, float]:
  """Returns the mean loss of a token, and how often the argmax is right."""
  return mean_loss(eval_step(params, *batch) for batch in batches)


def mean_loss(sums: Iterable[Sequence[Any]]) -> dict[str, float]:
  """Returns what `held_out_loss` does.

  Args:
    sums: Of each batch, what `step.make_eval_step` returns.
  """
  loss, hits, tokens = (
    sum(map(float, each)) for each in zip(*sums, strict=True)
  )
  return {
    "validation_loss": loss / tokens,
    "validation_accuracy": hits / tokens,
  }


class Exits:
  """Early exits of a model, each a draft of it (`t5.self_draft`)."""

  def __init__(self, model: training_model.Model, exits: Sequence[int]):
    """Makes what measures them.

    Args:
      model: The model.
      exits: After how many of its layers.
    """
    self._model = model
    self._steps = {
      count: make_acceptance_step(
        dataclasses.replace(model, config=model.config.shortened(count)),
        model,
        Divergence(),
      )
      for count in exits
    }

  def acceptance(
    self, params: Params, batches: Iterable[Batch]
  ) -> dict[str, float]:
    """Returns each exit's mean of sum min(p, q) over text, at temperature 1.

    Args:
      params: The model's parameters.
      batches: The text.
    """
    if not self._steps:
      return {}
    kept, tokens = (dict.fromkeys(self._steps, 0.0) for _ in range(2))
    for batch in batches:
      for count, acceptance_step in self._steps.items():
        _, exit_params = t5.self_draft(self._model, params, range(count))
        _, one, other = acceptance_step(exit_params, params, *batch)
        kept[count] += float(one)
        tokens[count] += float(other)
    return {
      f"validation_exit_{count}_acceptance": kept[count] / tokens[count]
      for count in self._steps
    }


def find_metric(
  metric: str, setting: str, otherwise: str
) -> tuple[Callable, Callable[[], str]]:
  """Returns a function of references and outputs, and one of its signature.

  Args:
    metric: "bleu" or "rouge".
    setting: What to call the setting in an error.
    otherwise: How to do without a metric, for the error.

  Raises:
    ModuleNotFoundError: If its package is missing; says how to get it.
    ValueError: If there is no such metric.
  """
  _check_known(metric, setting, otherwise)
  package, score, signature = _METRICS[metric]
  if importlib.util.find_spec(package) is None:
    raise ModuleNotFoundError(
      f"The metric {metric!r} needs the package {package}, of the extra"
      f" 'data': pip install -e '.[data]'. Or {otherwise}."
    )
  return score, signature


def _check_known(metric: str, setting: str, otherwise: str) -> None:
  if metric not in _METRICS:
    raise ValueError(
      f"{setting} is {metric!r}; there are {', '.join(_METRICS)}. For none,"
      f" {otherwise}."
    )


def _greedy(model, params, inputs, rows: int, max_new_tokens: int):
  """Returns greedy outputs; only the first rows are examples."""
  inputs = inputs.copy()
  inputs[rows:, 0] = EOS_ID  # Something to attend to.
  output = sd.autoregressive_generate(
    jax.random.key(0),
    inputs,
    model=model,
    params=params,
    config=sd.SpeculativeConfig(
      gamma=0,
      max_new_tokens=(max_new_tokens,) * rows + (1,) * (len(inputs) - rows),
      sampling=sd.SamplingConfig(temperature=0.0),
    ),
  )
  return np.asarray(output.tokens)
