"""A report of `experiments.evaluate` in Markdown, for a model card."""

from typing import Any

from experiments import markdown
from experiments.markdown import NOT_MEASURED, number

_METRICS = {"bleu": "BLEU", "rouge": "ROUGE-1 / 2 / Lsum"}


def card(report: dict[str, Any]) -> str:
  """Returns a line per model, the scores by origin, and what they are of.

  Args:
    report: What `evaluate.run` returns.
  """
  parts = [_models(report)]
  if report["metric"] is not None:
    parts.append(_origins(report))
  parts += [_notes(report), markdown.made_by([report])]
  return "\n\n".join(parts)


def _models(report: dict[str, Any]) -> str:
  temperatures = report["temperatures"]
  metric = report["metric"]
  columns = ["model", "parameters", "held-out loss", "accuracy"]
  columns += [] if metric is None else [_METRICS[metric]]
  for each in temperatures:
    columns += [f"α, T = {each:g}", f"α̂, T = {each:g}"]
  rows = []
  for model in report["models"]:
    row = [
      f"{model['pair']} {model['role']}",
      f"{model['parameters']:,}",
      number(model["loss"], 3),
      number(100 * model["accuracy"], 1, "%"),
    ]
    if metric is not None:
      row.append(_score(model["scores"]["all"]))
    for each in model["alpha"] or [{}] * len(temperatures):
      row += [_interval(each.get("alpha")), _interval(each.get("alpha_hat"))]
    rows.append(row)
  return markdown.table(columns, rows)


def _origins(report: dict[str, Any]) -> str:
  test, models = report["test"], report["models"]
  metric = _METRICS[report["metric"]]
  columns = ["origin", "texts", "tokens"]
  columns += [f"{each['pair']} {each['role']}, {metric}" for each in models]

  def row(name, counts, scores):
    cells = [name, f"{counts['texts']:,}", f"{counts['tokens']:,}"]
    return [*cells, *map(_score, scores)]

  rows = [
    row(
      origin, counts, [each["scores"]["by_origin"][origin] for each in models]
    )
    for origin, counts in test["by_origin"].items()
  ]
  rows.append(row("all", test, [each["scores"]["all"] for each in models]))
  return markdown.table(columns, rows)


def _notes(report: dict[str, Any]) -> str:
  """Returns a sentence or two on each figure, a line each."""
  lines = [
    f"{report['task']}. Loss in nats per token, and how often the argmax is"
    f" the next token: {_counted(report['validation'])} of the validation"
    " split."
  ]
  if report["metric"] is not None:
    lines.append(
      f"{_METRICS[report['metric']]}: greedy outputs of at most"
      f" {report['max_new_tokens']} tokens, {_counted(report['test'])} of the"
      f" test split's references; {report['signature']}."
    )
    lines += [
      f"{each['scores']['all']['unfinished']:,} outputs of the"
      f" {each['pair']} {each['role']} have no EOS before that."
      for each in report["models"]
      if each["scores"]["all"]["unfinished"]
    ]
  drafts = [each for each in report["models"] if each["alpha"]]
  for draft in drafts:
    tokens = " and ".join(
      f"{each['tokens']:,} (T = {each['temperature']:g})"
      for each in draft["alpha"]
    )
    lines.append(
      f"α of the {draft['pair']} draft: mean of sum min(p, q) over {tokens}"
      " tokens that the target generated."
    )
    lines += [
      f"At T = {each['temperature']:g} the texts gave no more tokens;"
      f" {report['min_tokens']:,} were asked for."
      for each in draft["alpha"]
      if not each["enough_tokens"]
    ]
  if drafts:
    lines.append(
      f"α̂: share of guesses that were kept, γ = {report['gamma']}. In"
      " brackets 95% intervals over texts."
    )
  return "\n".join(lines)


def _counted(split: dict[str, Any]) -> str:
  counted = f"{split['texts']:,} texts with {split['tokens']:,} tokens"
  if split["left_out"]:
    counted += f" ({split['left_out']:,} longer texts left out)"
  return counted


def _score(scores: dict[str, Any]) -> str:
  return " / ".join(number(each, 1) for each in scores["score"].values())


def _interval(values: dict[str, float | None] | None) -> str:
  if values is None or values["mean"] is None:
    return NOT_MEASURED
  mean = number(values["mean"], 3)
  if values["low"] is None:
    return mean
  return f"{mean} ({number(values['low'], 3)}–{number(values['high'], 3)})"
