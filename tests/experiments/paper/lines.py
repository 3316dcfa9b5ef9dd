"""Lines such as the measuring commands write, with made-up numbers."""

import json

ENVIRONMENT = {
  "python": "3.11.7",
  "jax": "0.10.2",
  "backend": "cpu",
  "device": "cpu",
  "cpu": "Abacus",
  "cores": 2,
  "dtype": "float32",
  "date": "2026-12-01",
  "commit": "abcdefg",
}
MADE = {"environment": ENVIRONMENT, "command": "python -m experiments.x"}


def interval(mean):
  return {"mean": mean, "low": mean - 0.01, "high": mean + 0.01}


def spread(median):
  return {"min": median - 0.1, "median": median, "max": median + 0.1}


def speed_line(**changes):
  return {
    "pair": "tiny",
    "task": "ende_sentences",
    "draft": "small",
    "temperature": 0.0,
    "gamma": 7,
    "batch_size": 1,
    "lenience": 1.0,
    "synthetic": False,
    "alpha_hat": interval(0.75),
    "block_efficiency": interval(3.5),
    "cost_ratio": 0.02,
    "verification_ratio": 1.4,
    "theorem_3_8": 3.16,
    "predicted": spread(2.0),
    "speedup": spread(2.1),
    "error_terms": {"verification": 0.7, "bookkeeping": 0.95},
    **MADE,
    **changes,
  }


def alpha_line(**changes):
  return {
    "pair": "tiny",
    "task": "ende_sentences",
    "draft": "small",
    "temperature": 0.0,
    "lenience": 1.0,
    "tokens": 10_500,
    "alpha": interval(0.7),
    "alpha_hat": interval(0.72),
    **MADE,
    **changes,
  }


ROUNDS = [
  {"accepted": ["Das", " $"], "rejected": " nicht", "added": " ist"},
  {"accepted": [" gut", "."], "rejected": None, "added": "</s>"},
]


def trace_line(**changes):
  return {
    "pair": "tiny",
    "task": "ende_sentences",
    "temperature": 0.0,
    "gamma": 3,
    "lenience": 1.0,
    "text": "That $ is good.",
    "rounds": ROUNDS,
    "baseline_calls": 6,
    "parts_ms": {
      "target_prefill": 4.0,
      "target_step": 10.0,
      "target_verify": 12.0,
      "draft_prefill": 1.0,
      "draft_step": 0.5,
      "draft_first": 2.0,
    },
    "speedup": spread(2.0),
    "predicted": spread(1.9),
    **MADE,
    **changes,
  }


def write(path, *lines):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text("".join(json.dumps(line) + "\n" for line in lines))
  return str(path)
