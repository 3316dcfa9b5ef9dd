"""BLEU and ROUGE as T5 computes them, of whole corpora."""

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_ROUGE = ("rouge1", "rouge2", "rougeLsum")


def bleu(
  targets: Sequence[str], predictions: Sequence[str]
) -> dict[str, float]:
  """BLEU by sacrebleu, with its international tokenizer.

  Args:
    targets: One reference a text.
    predictions: What was decoded.

  Returns:
    The score, 0 to 100.

  Raises:
    ValueError: If there is no text, or not a prediction for each.
  """
  _check(targets, predictions)
  score = _sacrebleu().corpus_score(list(predictions), [list(targets)])
  return {"bleu": float(score.score)}


def bleu_signature() -> str:
  """Returns sacrebleu's name of how `bleu` scores, to be quoted with it."""
  metric = _sacrebleu()
  # The signature holds the number of references, which a score tells.
  metric.corpus_score(["a"], [["a"]])
  return str(metric.get_signature())


def rouge(
  targets: Sequence[str], predictions: Sequence[str]
) -> dict[str, float]:
  """ROUGE-1, ROUGE-2 and ROUGE-Lsum, without stemming.

  The mean over the texts; T5 reports the median of resampled means, which
  differs in the second decimal from one run to the next.

  Args:
    targets: One reference a text.
    predictions: What was decoded.

  Returns:
    F-measures, 0 to 100.

  Raises:
    ValueError: If there is no text, or not a prediction for each.
  """
  from rouge_score import rouge_scorer

  _check(targets, predictions)
  scorer = rouge_scorer.RougeScorer(list(_ROUGE))
  scores = [
    scorer.score(target=_sentences(target), prediction=_sentences(prediction))
    for target, prediction in zip(targets, predictions, strict=True)
  ]
  return {
    name: 100 * sum(score[name].fmeasure for score in scores) / len(scores)
    for name in _ROUGE
  }


def rouge_signature() -> str:
  """Returns how `rouge` scores, to be quoted with it."""
  version = importlib.metadata.version("rouge-score")
  return f"F-measure, mean of texts, no stemming, rouge-score {version}"


def with_counters(metric: Callable[..., dict[str, Any]]) -> Callable:
  """Adds what speculation counted to a metric, where seqio hands it over.

  Args:
    metric: A function of targets and predictions.

  Returns:
    A function of targets, predictions and the auxiliary values of
    `t5x_model.SpeculativeEncoderDecoderModel`; it adds `acceptance_rate` and
    `block_efficiency` where these values have the counters, and something was
    counted.
  """

  # seqio knows by the arguments' names what to call it with.
  def counted(
    targets: Sequence[str],
    predictions: Sequence[str],
    aux_values: Mapping[str, Any],
  ) -> dict[str, Any]:
    rates = {
      "acceptance_rate": ("accepted", "examined"),
      "block_efficiency": ("emitted", "target_calls"),
    }
    scores = dict(metric(targets, predictions))
    for name, (part, whole) in rates.items():
      if part in aux_values and sum(aux_values[whole]):
        scores[name] = float(sum(aux_values[part]) / sum(aux_values[whole]))
    return scores

  return counted


def _sacrebleu():
  import sacrebleu

  return sacrebleu.BLEU(smooth_method="exp", smooth_value=0.0, tokenize="intl")


def _sentences(summary: str) -> str:
  # ROUGE-Lsum compares sentences, a line each; T5 takes a full stop between
  # spaces for the end of one.
  return summary.replace(" . ", " .\n")


def _check(targets, predictions) -> None:
  if not targets or len(targets) != len(predictions):
    raise ValueError(
      f"There are {len(targets)} targets and {len(predictions)} predictions;"
      " give one prediction for each of at least one target."
    )
