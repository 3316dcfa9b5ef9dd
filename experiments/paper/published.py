"""The numbers that the paper prints (arXiv 2211.17192v2)."""

from typing import NamedTuple


class Table1Row(NamedTuple):
  """Theorems 3.8 and 3.11 at c = c^ = 0.

  Attributes:
    alpha: Acceptance rate.
    gamma: Guesses per round.
    operations: Factor of arithmetic operations, as printed.
    speed: Factor of wall time, as printed.
  """

  alpha: float
  gamma: int
  operations: str
  speed: str


class SpeedRow(NamedTuple):
  """A row of Tables 2 and 4; the target is T5-XXL, on one TPU-v4, batch 1.

  Attributes:
    task: "ende" or "cnndm".
    draft: The size of the T5 1.1 that drafts.
    temperature: 0 or 1.
    gamma: Guesses per round.
    alpha: Acceptance rate.
    cost_ratio: c.
    empirical: Measured speed-up, as printed.
    expected: What the paper's formula gave, as printed.
  """

  task: str
  draft: str
  temperature: int
  gamma: int
  alpha: float
  cost_ratio: float
  empirical: str
  expected: str


class AlphaRow(NamedTuple):
  """A row of Table 3: alpha over 10,000 tokens that the target generated.

  Attributes:
    target: The target.
    draft: The draft.
    greedy: alpha at temperature 0.
    sampled: alpha at temperature 1; LaMDA's with top-k 40.
  """

  target: str
  draft: str
  greedy: str
  sampled: str


class LenienceRow(NamedTuple):
  """A row of Table 5: alpha of T5-XXL on EnDe at temperature 1.

  Attributes:
    draft: The draft.
    alphas: For each of `LENIENCES`, as printed.
  """

  draft: str
  alphas: tuple[str, str, str, str]


TABLE_1 = (
  Table1Row(0.6, 2, "1.53", "1.96"),
  Table1Row(0.7, 3, "1.58", "2.53"),
  Table1Row(0.8, 2, "1.23", "2.44"),
  Table1Row(0.8, 5, "1.63", "3.69"),
  Table1Row(0.9, 2, "1.11", "2.71"),
  Table1Row(0.9, 10, "1.60", "6.86"),
)

TABLES_2_AND_4 = (
  SpeedRow("ende", "small", 0, 7, 0.75, 0.02, "3.4", "3.2"),
  SpeedRow("ende", "base", 0, 7, 0.80, 0.04, "2.8", "3.3"),
  SpeedRow("ende", "large", 0, 7, 0.82, 0.11, "1.7", "2.5"),
  SpeedRow("ende", "small", 1, 7, 0.62, 0.02, "2.6", "2.3"),
  SpeedRow("ende", "base", 1, 5, 0.68, 0.04, "2.4", "2.4"),
  SpeedRow("ende", "large", 1, 3, 0.71, 0.11, "1.4", "2.0"),
  SpeedRow("cnndm", "small", 0, 5, 0.65, 0.02, "3.1", "2.4"),
  SpeedRow("cnndm", "base", 0, 5, 0.73, 0.04, "3.0", "2.6"),
  SpeedRow("cnndm", "large", 0, 3, 0.74, 0.11, "2.2", "2.0"),
  SpeedRow("cnndm", "small", 1, 5, 0.53, 0.02, "2.3", "1.9"),
  SpeedRow("cnndm", "base", 1, 3, 0.55, 0.04, "2.2", "1.8"),
  SpeedRow("cnndm", "large", 1, 3, 0.56, 0.11, "1.7", "1.6"),
)

TABLE_3 = (
  AlphaRow("GPT-like 97M, LM1B", "unigram", "0.03", "0.03"),
  AlphaRow("GPT-like 97M, LM1B", "bigram", "0.05", "0.05"),
  AlphaRow("GPT-like 97M, LM1B", "GPT-like 6M", "0.88", "0.89"),
  AlphaRow("T5-XXL, EnDe", "unigram", "0.08", "0.07"),
  AlphaRow("T5-XXL, EnDe", "bigram", "0.20", "0.19"),
  AlphaRow("T5-XXL, EnDe", "T5-small", "0.75", "0.62"),
  AlphaRow("T5-XXL, EnDe", "T5-base", "0.80", "0.68"),
  AlphaRow("T5-XXL, EnDe", "T5-large", "0.82", "0.71"),
  AlphaRow("T5-XXL, CNN/DM", "unigram", "0.13", "0.08"),
  AlphaRow("T5-XXL, CNN/DM", "bigram", "0.23", "0.16"),
  AlphaRow("T5-XXL, CNN/DM", "T5-small", "0.65", "0.53"),
  AlphaRow("T5-XXL, CNN/DM", "T5-base", "0.73", "0.55"),
  AlphaRow("T5-XXL, CNN/DM", "T5-large", "0.74", "0.56"),
  AlphaRow("LaMDA 137B, dialog", "LaMDA 100M", "0.61", "0.57"),
  AlphaRow("LaMDA 137B, dialog", "LaMDA 2B", "0.71", "0.71"),
  AlphaRow("LaMDA 137B, dialog", "LaMDA 8B", "0.75", "0.74"),
)

LENIENCES = (1.0, 0.5, 0.3, 0.1)

TABLE_5 = (
  LenienceRow("unigram", ("0.07", "0.10", "0.11", "0.16")),
  LenienceRow("bigram", ("0.19", "0.23", "0.25", "0.32")),
  LenienceRow("T5-small", ("0.62", "0.71", "0.76", "0.84")),
  LenienceRow("T5-base", ("0.68", "0.80", "0.83", "0.90")),
)

# Section A.5, T5-small on EnDe with c = 0.015, for each of `LENIENCES`.
LENIENT_COST_RATIO = 0.015
LENIENT_SPEEDS = ("2.5", "3.1", "3.6", "5")
GREEDY_LENIENT_ALPHAS = (0.75, 0.75, 0.8, 0.87)
GREEDY_LENIENT_SPEEDS = ("3.3", "3.3", "3.9", "4.9")
GREEDY_LENIENT_GAMMA = 8


class Trace(NamedTuple):
  """A text, decoded.

  Attributes:
    tokens: Its length.
    target_calls: How often the target was called.
  """

  tokens: int
  target_calls: int


# On LM1B, by the GPT-like models; gamma is not printed.
FIGURE_1 = Trace(tokens=38, target_calls=9)

# Target calls of one text, by gamma; 0 is plain decoding.
FIGURE_5 = {7: 4, 3: 7, 0: 17}
