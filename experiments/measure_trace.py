"""Decodes one text round by round, and times what the rounds are made of.

    python -m experiments.measure_trace --gin_file=measure_trace.gin

Leaves a line per gamma in trace.jsonl, of which the paper's Figures 1 and 5 are
drawn: what each round kept, rejected and added, and the time of each part for
this text. An interrupted run goes on with the gammas that are missing.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import specdec_jax as sd
from experiments import compilation_cache, environment, gin_cli
from experiments.checks import check_integers
from experiments.decoding import workload
from experiments.decoding.batching import Batch, example_keys, make_batches
from experiments.decoding.pair import Pair, PairConfig
from experiments.decoding.task import Task
from experiments.decoding.timing import time_pair
from experiments.decoding.trace import TracedRound, trace
from experiments.progress import progress_bar
from experiments.records import Records
from experiments.spread import spread

TRACES = "trace.jsonl"


def run(
  *,
  pair: PairConfig,
  task: Task,
  output_dir: str,
  max_input_length: int,
  max_new_tokens: int,
  prompt_tokens: int | None = None,
  text: int = 0,
  gammas: Sequence[int] = (7, 3),
  temperature: float = 0.0,
  top_k: int = 0,
  top_p: float = 1.0,
  lenience: float = 1.0,
  repeats: int = 5,
  input_length_multiple: int = 32,
  seed: int = 0,
  resume: bool = True,
) -> list[dict[str, Any]]:
  """Traces a text.

  Args:
    pair: The models.
    task: The texts.
    output_dir: Where the results go. Gammas that are there already are not
      traced again.
    max_input_length: Most tokens of a text, EOS included.
    max_new_tokens: Most tokens of an output, EOS included.
    prompt_tokens: See `workload.load`.
    text: Which text of the task, counted from 0.
    gammas: Draft tokens per round.
    temperature: What to decode at.
    top_k: See `SamplingConfig`.
    top_p: See `SamplingConfig`.
    lenience: See `SpeculativeConfig`: LOSSY below 1.
    repeats: How often to time.
    input_length_multiple: The input is padded to a multiple of it.
    seed: For temperatures above 0.
    resume: Whether to go on from what is there; otherwise it is overwritten.

  Returns:
    The lines, in the order of the gammas.

  Raises:
    FileNotFoundError: If something is not there.
    ValueError: If an argument cannot be, something does not fit together, or
      `output_dir` holds traces of another run.
  """
  if not gammas or len(set(gammas)) < len(gammas):
    raise ValueError(f"gammas is {tuple(gammas)}; give one or more, each once.")
  for each in gammas:
    check_integers(1, **{"a value of gammas": each})
  check_integers(
    1, repeats=repeats, input_length_multiple=input_length_multiple
  )
  check_integers(0, text=text)
  if not pair.has_drafter:
    raise ValueError(
      "PairConfig.draft is None; a trace shows what becomes of guesses, so name"
      " a draft."
    )
  configs = {
    gamma: sd.SpeculativeConfig(
      gamma=gamma,
      max_new_tokens=max_new_tokens,
      sampling=sd.SamplingConfig(temperature, top_k, top_p),
      lenience=lenience,
    )
    for gamma in gammas
  }
  work = workload.load(
    pair,
    task,
    max_input_length=max_input_length,
    prompt_tokens=prompt_tokens,
  )
  if text >= len(work.examples):
    raise ValueError(
      f"text is {text}, but {task.source} has {len(work.examples)} texts,"
      " counted from 0."
    )
  where = environment.describe(pair.dtype)
  config = dataclasses.asdict(configs[gammas[0]])
  del config["gamma"]
  records = Records(
    output_dir,
    TRACES,
    work.manifest
    | {
      "text": text,
      "config": config,
      "repeats": repeats,
      "input_length_multiple": input_length_multiple,
      "seed": seed,
      "code": environment.code_checksum(),
      # Times of one machine are not to be set beside those of another.
      "machine": environment.machine(where),
    },
    resume=resume,
  )
  (batch,) = make_batches(
    work.encoded, [text], batch_size=1, length_multiple=input_length_multiple
  )
  found = {each["gamma"]: each for each in records.done}
  with progress_bar(
    "traces",
    total=len(gammas) * (repeats + 1),
    done=sum(each in found for each in gammas) * (repeats + 1),
  ) as advance:
    for gamma in gammas:
      if gamma in found:
        continue
      line = {
        "pair": pair.name,
        "task": task.name,
        "line": work.examples[text].line,
        "text": work.examples[text].text,
        **_traced(
          work.pair,
          batch,
          configs[gamma],
          seed=seed,
          repeats=repeats,
          on_progress=lambda: advance(1),
        ),
        "environment": where,
        "command": environment.command(),
      }
      records.append([line])
      found[gamma] = records.done[-1]
  print(f"Traces: {records.path}")
  return [found[gamma] for gamma in gammas]


def _traced(
  pair: Pair,
  batch: Batch,
  config: sd.SpeculativeConfig,
  *,
  seed: int,
  repeats: int,
  on_progress,
) -> dict[str, Any]:
  rounds = trace(
    example_keys(seed, batch), batch.inputs, pair=pair, config=config
  )
  timing = time_pair(
    pair,
    [batch],
    config=config,
    seed=seed,
    repeats=repeats,
    on_progress=on_progress,
  )
  return {
    "temperature": config.sampling.temperature,
    "top_k": config.sampling.top_k,
    "top_p": config.sampling.top_p,
    "gamma": config.gamma,
    "lenience": config.lenience,
    "seed": seed,
    "rounds": [_round(each, pair.vocabulary) for each in rounds],
    "baseline_calls": timing.work[0].baseline_calls,
    "parts_ms": {
      name: 1e3 * each for name, each in timing.parts._asdict().items()
    },
    "speedup": spread(timing.speedup),
    "predicted": spread(timing.predicted_speedups),
  }


def _round(each: TracedRound, vocabulary) -> dict[str, Any]:
  """Returns a round with its tokens as they look inside a text."""

  def text(token):
    return None if token is None else vocabulary.token_text(token)

  return {
    "accepted": [text(token) for token in each.accepted],
    "rejected": text(each.rejected),
    "added": text(each.added),
  }


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
  """Runs the command line."""
  return gin_cli.main(
    run, name="measure_trace", configurables=(PairConfig, Task), argv=argv
  )


if __name__ == "__main__":
  compilation_cache.enable()
  main()
