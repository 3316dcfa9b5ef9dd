"""How good a pair is: what its model card says, in one command.

    python -m experiments.evaluate --gin_file=evaluate.gin

Of the target and of each draft: parameters, held-out loss and accuracy, and
BLEU or ROUGE of greedy outputs on the test split, by origin and over all; of
each draft also alpha, by the paper's definition and as decoding counts it
(`measure_alpha`). Leaves report.json and the same as Markdown, card.md; run
again, it goes on where it stopped.
"""

import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import specdec_jax as sd
from experiments import (
  compilation_cache,
  environment,
  generate_text,
  gin_cli,
  held_out,
  measure_alpha,
  model_card,
)
from experiments.checks import check_integers
from experiments.decoding.alone import WithEncoder
from experiments.decoding.drafts import check_one_target, load_drafts
from experiments.decoding.pair import Pair, PairConfig, weights_checksum
from experiments.decoding.report import count_parameters
from experiments.decoding.terminal import make_console
from experiments.paths import resolve
from experiments.progress import progress_bar
from experiments.records import Records, checksum, write_json
from experiments.training import data as training_data
from experiments.training import evaluation as training_evaluation
from experiments.training.seqio_task import SeqioTask
from specdec_jax import lm
from specdec_jax.array_typing import Params
from specdec_jax.t5.vocabulary import EOS_ID, SentencePieceVocabulary
from specdec_jax.training import batching
from specdec_jax.training.step import Model, make_eval_step

REPORT = "report.json"
CARD = "card.md"
LOSS = "loss.jsonl"

CONFIGURABLES = (PairConfig, training_data.TextFiles, SeqioTask)


def run(
  *,
  pairs: Sequence[PairConfig],
  data: training_data.Examples,
  task: str,
  output_dir: str,
  metric: str | None = None,
  max_input_length: int = 96,
  max_new_tokens: int = 96,
  validation_examples: int | None = None,
  test_examples: int | None = None,
  prompt_tokens: int | None = None,
  temperatures: Sequence[float] = (0.0, 1.0),
  gamma: int = 7,
  min_tokens: int = 10_000,
  batch_size: int = 16,
  input_length_multiple: int = 32,
  seed: int = 0,
  resume: bool = True,
) -> dict[str, Any]:
  """Evaluates a target and its drafts.

  Args:
    pairs: The target with each of its drafts; one pair without a draft to
      evaluate the target alone.
    data: A `TextFiles` or a `SeqioTask` with the vocabulary of the models. Its
      validation split gives the loss, its test split all else.
    task: What to call the texts.
    output_dir: Where the results go. If an interrupted run of the same
      configuration left its own there, this one goes on from them.
    metric: "bleu" or "rouge" of greedy outputs; None for none, and for
      language models.
    max_input_length: Texts with a longer side, EOS included, are left out, and
      counted.
    max_new_tokens: Most tokens of an output, EOS included.
    validation_examples: How many texts to take the loss of, drawn at random;
      None for all.
    test_examples: How many texts to decode, drawn at random; None for all.
    prompt_tokens: For a language model, and for that alone: how many tokens of
      a test text are the prompt. Shorter texts are not decoded.
    temperatures: What to measure alpha at.
    gamma: Draft tokens per round; only alpha-hat depends on it.
    min_tokens: How many tokens of the target's own to measure alpha on; see
      `measure_alpha.run`.
    batch_size: Texts that are decoded side by side.
    input_length_multiple: Texts are padded to a multiple of it; the larger,
      the fewer programs are compiled.
    seed: Of the draws.
    resume: Whether to go on from what is there; otherwise it is overwritten.

  Returns:
    What is in report.json.

  Raises:
    FileNotFoundError: If a file is missing.
    ModuleNotFoundError: If the metric's package is.
    ValueError: If something does not fit together, a text is bad, or
      `output_dir` holds results of another run.
  """
  scorer, signature = _find(metric)
  check_integers(
    1,
    max_input_length=max_input_length,
    max_new_tokens=max_new_tokens,
    min_tokens=min_tokens,
    batch_size=batch_size,
    input_length_multiple=input_length_multiple,
  )
  optional = {
    "validation_examples": validation_examples,
    "test_examples": test_examples,
    "prompt_tokens": prompt_tokens,
  }
  check_integers(
    1, **{name: each for name, each in optional.items() if each is not None}
  )
  configs = measure_alpha.make_configs(
    temperatures, 0, 1.0, gamma, max_new_tokens
  )
  _check_pairs(pairs)
  vocabulary = _load_vocabulary(pairs, data)
  validation, test = (
    held_out.load(
      data, split, max_input_length=max_input_length, limit=limit, seed=seed
    )
    for split, limit in (
      ("validation", validation_examples),
      ("test", test_examples),
    )
  )
  loaded = load_drafts(pairs[0].load(vocabulary), pairs[1:])
  _check_kind(loaded[0], metric, validation, test)
  sources = generate_text.sources_of(
    test.pairs,
    loaded[0].target,
    prompt_tokens=prompt_tokens,
    split="test",
    path=pairs[0].target,
  )
  settings = {
    "batch_size": batch_size,
    "input_length_multiple": input_length_multiple,
    "seed": seed,
  }
  console = make_console()

  def evaluate(pair: Pair, role: str, model, params, folder: pathlib.Path):
    path = getattr(pair.config, role)
    # The target of several drafts has the name of none of them.
    is_shared = role == "target" and len(pairs) > 1
    name = task if is_shared else pair.config.name
    console.print(f"{name} {role}: {path}", markup=False)
    # All that the records depend on.
    manifest = {
      "model": {"path": path, "weights": weights_checksum(params)},
      "dtype": pair.config.dtype,
      "validation": training_data.checksum(validation.pairs),
      "sources": checksum(sources),
      "max_new_tokens": max_new_tokens,
      **settings,
    }
    found = {
      "pair": name,
      "role": role,
      "path": path,
      "parameters": count_parameters(params),
      **_loss(
        pair,
        model,
        params,
        _batches(validation, batch_size, input_length_multiple),
        Records(folder, LOSS, manifest, resume=resume),
        path,
      ),
      "scores": None,
      "alpha": None,
    }
    if scorer is not None:
      outputs = Records(folder, generate_text.OUTPUTS, manifest, resume=resume)
      alone, alone_params = _alone(pair, model, params)
      generate_text.write(
        outputs,
        sources,
        generate_text.by_length(sources, range(len(sources))),
        model=alone,
        params=alone_params,
        config=sd.SpeculativeConfig(
          gamma=0,
          max_new_tokens=max_new_tokens,
          sampling=sd.SamplingConfig(temperature=0.0),
        ),
        **settings,
      )
      found["scores"] = _scores(outputs, test, vocabulary, scorer)
    return found

  folder = pathlib.Path(output_dir)
  first = loaded[0]
  models = [
    evaluate(
      first, "target", first.target, first.target_params, folder / "target"
    )
  ]
  for pair in loaded:
    if pair.draft is None:
      continue
    place = folder / "drafts" / pair.config.name
    models.append(evaluate(pair, "draft", pair.draft, pair.draft_params, place))
  drafts = {each.config.name: each for each in loaded if each.draft is not None}
  if drafts:
    alphas = measure_alpha.measure(
      drafts,
      sources,
      configs,
      leniences=(1.0,),
      decode=True,
      task=task,
      output_dir=str(folder / "alpha"),
      manifest={},
      min_tokens=min_tokens,
      resume=resume,
      **settings,
    )
    for model in models[1:]:
      model["alpha"] = [
        each for each in alphas if each["draft"] == model["pair"]
      ]

  report = {
    "task": task,
    "data": dict(vars(data)),
    "metric": metric,
    "signature": signature,
    "max_input_length": max_input_length,
    "max_new_tokens": max_new_tokens,
    "prompt_tokens": prompt_tokens,
    "temperatures": list(configs),
    "gamma": gamma,
    "min_tokens": min_tokens,
    **settings,
    "validation": validation.counts(),
    "test": test.counts(),
    "models": models,
    "environment": environment.describe(pairs[0].dtype),
    "command": environment.command(),
  }
  card = model_card.card(report)
  write_json(folder / REPORT, report)
  (folder / CARD).write_text(card + "\n", encoding="utf-8")
  console.print(card, markup=False)
  console.print(f"\nReport: {folder / REPORT}\nCard: {folder / CARD}")
  return report


def _find(metric: str | None) -> tuple[Callable | None, str | None]:
  """Returns what scores, and its signature."""
  if metric is None:
    return None, None
  scorer, signature = training_evaluation.find_metric(
    metric, "evaluate.metric", "set it to None"
  )
  return scorer, signature()


def _check_pairs(pairs: Sequence[PairConfig]) -> None:
  if not pairs:
    raise ValueError("evaluate.pairs is empty; give at least one PairConfig.")
  check_one_target(pairs, "evaluate.pairs")
  for each in pairs:
    if each.drafts_from_table:
      raise ValueError(
        f"PairConfig.draft is {each.draft} in evaluate.pairs, an n-gram table,"
        " and only models have a line in a model card; give it to"
        " measure_alpha."
      )
    each.check_only_draft("a card's lines are of models")
  names = [each.name for each in pairs]
  for name in names:
    # It names a folder.
    if pathlib.PurePath(name).name != name or names.count(name) > 1:
      raise ValueError(
        f"PairConfig.name is {name!r} in evaluate.pairs, whose names are"
        f" {', '.join(map(repr, names))}; give each a name of its own, without"
        " a slash."
      )


def _load_vocabulary(
  pairs: Sequence[PairConfig], data: training_data.Examples
) -> SentencePieceVocabulary:
  vocabularies = [each.load_vocabulary() for each in pairs]
  vocabulary = vocabularies[0]
  of_data = SentencePieceVocabulary(resolve(data.vocabulary))
  # That of the models may have sentinels at its end.
  if vocabulary.pieces[: of_data.vocab_size] != of_data.pieces:
    kind = type(data).__name__
    raise ValueError(
      f"{kind}.vocabulary is {of_data.path} ({of_data.vocab_size} ids), but"
      f" that of the models is {vocabulary.path} ({vocabulary.vocab_size}"
      f" ids), with other tokens; set {kind}.vocabulary to the models'."
    )
  return vocabulary


def _check_kind(
  pair: Pair,
  metric: str | None,
  validation: held_out.Split,
  test: held_out.Split,
) -> None:
  """Checks that texts and metric are for the kind of model."""
  path = pair.config.target
  splits = (("validation", validation), ("test", test))
  if not isinstance(pair.target, lm.LMModel):
    for name, split in splits:
      training_data.check_kind(split.pairs, decoder_only=False, split=name)
    return
  if metric is not None:
    raise ValueError(
      f"evaluate.metric is {metric!r}, but {path} is a language model, whose"
      " outputs have no references; set it to None."
    )
  for name, split in splits:
    if any(row.source for row in split.rows):
      raise ValueError(
        f"Texts of the {name} split have sources, but {path} is a language"
        " model, which reads none; set TextFiles.only_source=True."
      )


def _batches(
  split: held_out.Split, batch_size: int, multiple: int
) -> list[batching.Batch]:
  longest = max(row.longest for row in split.rows)
  widths = tuple(range(multiple, longest + multiple, multiple))
  return batching.in_order(
    split.pairs, batching.Batching(batch_size * widths[-1], widths)
  )


def _alone(
  pair: Pair, model: Any, params: Params
) -> tuple[sd.DecoderModel, Params]:
  """Returns what decodes without another model's help."""
  if not getattr(model, "shares_encoder", False):
    return model, params
  target: Any = pair.target
  both = {"encoder": pair.target_params, "decoder": params}
  return WithEncoder(target, model), both


def _loss(
  pair: Pair,
  model: Model,
  params: Params,
  batches: list[batching.Batch],
  records: Records,
  path: str,
) -> dict[str, float]:
  """Returns the mean loss of a token in nats, and the accuracy."""
  target: Any = pair.target
  eval_step = make_eval_step(model, target)
  with progress_bar(
    "loss", total=len(batches), done=len(records.done)
  ) as advance:
    for batch in batches[len(records.done) :]:
      loss, hits, tokens = map(
        float, eval_step(params, *batch, pair.target_params)
      )
      if not math.isfinite(loss):
        raise ValueError(
          f"The held-out loss of {path} is {loss}: its logits are not finite."
          " Check its weights."
        )
      records.append([{"loss": loss, "hits": hits, "tokens": tokens}])
      advance(1)
  means = training_evaluation.mean_loss(
    (each["loss"], each["hits"], each["tokens"]) for each in records.done
  )
  return {
    "loss": means["validation_loss"],
    "accuracy": means["validation_accuracy"],
  }


def _scores(
  outputs: Records,
  test: held_out.Split,
  vocabulary: SentencePieceVocabulary,
  scorer: Callable,
) -> dict[str, Any]:
  """Returns the scores of all outputs, and of those of each origin."""
  ids = {each["source"]: each["ids"] for each in outputs.done}

  def reference(row):
    if row.reference is None:
      return vocabulary.decode(row.target)
    return row.reference

  def score(indices):
    return {
      "score": scorer(
        [reference(test.rows[i]) for i in indices],
        [vocabulary.decode(ids[i]) for i in indices],
      ),
      "output_tokens": sum(len(ids[i]) for i in indices),
      "unfinished": sum(ids[i][-1] != EOS_ID for i in indices),
    }

  return {
    "all": score(range(len(test.rows))),
    "by_origin": {
      kind: score(indices) for kind, indices in test.by_origin().items()
    },
  }


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
  """Runs the command line."""
  return gin_cli.main(
    run, name="evaluate", configurables=CONFIGURABLES, argv=argv
  )


if __name__ == "__main__":
  compilation_cache.enable()
  main()
