"""Table 3: alpha of n-gram tables and models, at temperatures 0 and 1.

python -m experiments.paper.table_3 --gin_file=paper/table_3.gin
"""

from collections.abc import Sequence

from experiments import markdown
from experiments.paper import measured, page
from experiments.paper.published import TABLE_3

_TARGETS = {"ende": "T5-XXL, EnDe", "cnndm": "T5-XXL, CNN/DM"}
_OURS = (
  "pair",
  "task",
  "draft",
  "T",
  "α, paper",
  "α, ours",
  "α̂, ours",
  "tokens",
  "run",
)


def make(results: Sequence[str]) -> page.Page:
  """Returns the page.

  Args:
    results: Files alpha.jsonl.

  Raises:
    FileNotFoundError: See `measured.read`.
    ValueError: Likewise.
    NotMeasuredError: Likewise, or if all lines are lossy.
  """
  lines = [
    line
    for line in measured.read(results, measured.ALPHA)
    if line["lenience"] == 1
  ]
  if not lines:
    raise measured.NotMeasuredError(
      f"{', '.join(results)} have no line with lenience 1, and Table 3 is"
      f" without lenience; {measured.ALPHA.command} makes such lines."
    )
  runs = measured.Runs(lines)
  return page.Page(
    "Table 3: α by draft",
    "\n\n".join(
      [
        "The paper's own, over 10,000 tokens that the target wrote; LaMDA's"
        " with top-k 40.",
        markdown.table(
          ("target", "draft", "α, T = 0", "α, T = 1"),
          [(row.target, row.draft, row.greedy, row.sampled) for row in TABLE_3],
        ),
        "Ours: α is the mean of Σ min(p, q) over what the target wrote"
        " (corollary 3.6), α̂ the share of guesses that decoding kept, of those"
        " it examined; 95% intervals over texts. The paper's number beside"
        " ours is T5-XXL's, on the task or the one that ours stands in for,"
        " with a draft of this name; models and texts are others.",
        markdown.table(_OURS, [_row(line, runs) for line in lines]),
        *_few_tokens(lines),
        *measured.warnings(lines),
        runs.listed(),
      ]
    ),
  )


def _row(line: measured.Line, runs: measured.Runs) -> tuple[str, ...]:
  return (
    measured.pair_name(line),
    line["task"],
    line["draft"],
    f"{line['temperature']:g}",
    _published(line),
    measured.interval(line["alpha"]),
    measured.interval(line["alpha_hat"]),
    f"{line['tokens']:,}",
    runs.number(line),
  )


def _published(line: measured.Line) -> str:
  target = _TARGETS.get(measured.published_task(line) or "")
  draft = measured.published_draft(line)
  for row in TABLE_3:
    if row.target == target and row.draft.removeprefix("T5-") == draft:
      printed = {0: row.greedy, 1: row.sampled}
      return printed.get(line["temperature"], markdown.NOT_MEASURED)
  return markdown.NOT_MEASURED


def _few_tokens(lines: Sequence[measured.Line]) -> list[str]:
  least = min(line["tokens"] for line in lines)
  if least >= 10_000:
    return []
  return [f"Some rows have fewer tokens than the paper's 10,000: {least:,}."]


if __name__ == "__main__":
  page.main_with_results(make, "table_3")
