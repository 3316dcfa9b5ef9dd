from experiments import model_card

ENVIRONMENT = {
  "python": "3.11.7",
  "jax": "0.10.2",
  "backend": "cpu",
  "device": "cpu",
  "cpu": "A processor",
  "cores": 2,
  "dtype": "float32",
  "date": "2026-01-02",
  "commit": "abc1234",
}


def scores(value, unfinished=0):
  return {
    "score": {"bleu": value},
    "output_tokens": 9,
    "unfinished": unfinished,
  }


def interval(mean):
  return {"mean": mean, "low": mean - 0.01, "high": mean + 0.02}


TARGET = {
  "pair": "demo",
  "role": "target",
  "path": "target",
  "parameters": 13_114_112,
  "loss": 2.2104,
  "accuracy": 0.6031,
  "scores": {
    "all": scores(21.26, 1200),
    "by_origin": {"help": scores(30.0), "man": scores(11.04)},
  },
  "alpha": None,
}
DRAFT = TARGET | {
  "role": "draft",
  "parameters": 2_492_416,
  "scores": {
    "all": scores(9.0),
    "by_origin": {"help": scores(8.0), "man": scores(10.0)},
  },
  "alpha": [
    {
      "temperature": 0.0,
      "tokens": 9_000,
      "enough_tokens": False,
      "alpha": interval(0.754),
      "alpha_hat": interval(0.66),
    },
    {
      "temperature": 1.0,
      "tokens": 10_010,
      "enough_tokens": True,
      "alpha": interval(0.7),
      "alpha_hat": {"mean": 0.65, "low": None, "high": None},
    },
  ],
}
REPORT = {
  "task": "ende",
  "metric": "bleu",
  "signature": "nrefs:1|version:2.5.1",
  "max_new_tokens": 96,
  "temperatures": [0.0, 1.0],
  "gamma": 7,
  "min_tokens": 10_000,
  "validation": {"texts": 400, "tokens": 9_876, "left_out": 0},
  "test": {
    "texts": 1_500,
    "tokens": 30_000,
    "left_out": 12,
    "by_origin": {
      "help": {"texts": 500, "tokens": 10_000},
      "man": {"texts": 1_000, "tokens": 20_000},
    },
  },
  "models": [TARGET, DRAFT],
  "environment": ENVIRONMENT,
  "command": "python -m experiments.evaluate --gin_file=evaluate.gin",
}


def test_a_line_per_model_and_per_origin():
  tables = model_card.card(REPORT).split("\n\n")
  assert tables[0].splitlines() == [
    "| model | parameters | held-out loss | accuracy | BLEU | α, T = 0 |"
    " α̂, T = 0 | α, T = 1 | α̂, T = 1 |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    "| demo target | 13,114,112 | 2.210 | 60.3% | 21.3 | – | – | – | – |",
    "| demo draft | 2,492,416 | 2.210 | 60.3% | 9.0 | 0.754 (0.744–0.774) |"
    " 0.660 (0.650–0.680) | 0.700 (0.690–0.720) | 0.650 |",
  ]
  assert tables[1].splitlines() == [
    "| origin | texts | tokens | demo target, BLEU | demo draft, BLEU |",
    "| --- | --- | --- | --- | --- |",
    "| help | 500 | 10,000 | 30.0 | 8.0 |",
    "| man | 1,000 | 20,000 | 11.0 | 10.0 |",
    "| all | 1,500 | 30,000 | 21.3 | 9.0 |",
  ]


def test_what_the_figures_are_of_is_said():
  text = model_card.card(REPORT)
  for each in (
    "400 texts with 9,876 tokens of the validation split",
    "1,500 texts with 30,000 tokens (12 longer texts left out) of the test",
    "nrefs:1|version:2.5.1",
    "1,200 outputs of the demo target have no EOS",
    "over 9,000 (T = 0) and 10,010 (T = 1) tokens",
    "At T = 0 the texts gave no more tokens; 10,000 were asked for.",
    "γ = 7",
    f"```\n{REPORT['command']}\n```",
    "on A processor, 2 cores, float32",
  ):
    assert each in text
  assert "outputs of the demo draft" not in text
  assert "At T = 1" not in text


def test_rouge_has_three_figures():
  three = {"rouge1": 41.24, "rouge2": 19.0, "rougeLsum": 38.1}
  model = TARGET | {
    "scores": {"all": scores(0.0) | {"score": three}, "by_origin": {}}
  }
  report = REPORT | {"metric": "rouge", "models": [model]}
  report["test"] = REPORT["test"] | {"by_origin": {}}
  text = model_card.card(report)
  assert "| ROUGE-1 / 2 / Lsum |" in text
  assert "| 60.3% | 41.2 / 19.0 / 38.1 |" in text


def test_without_a_metric_there_is_one_table():
  model = TARGET | {"scores": None}
  text = model_card.card(REPORT | {"metric": None, "models": [model]})
  assert "| demo target | 13,114,112 | 2.210 | 60.3% | – | – | – | – |" in text
  assert "origin" not in text
  assert "α̂:" not in text
