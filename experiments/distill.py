"""Trains a draft to decode like its target; run again, it goes on.

    python -m experiments.distill --gin_file=distill/demo_draft.gin \
      --gin.TARGET_TEXT='("runs/demo_text/train/generated.jsonl.gz",)' \
      --gin.VALIDATION='"runs/demo_text/validation/generated.jsonl.gz"' \
      --gin.DATA='"ende_train.tsv.gz"' --output_dir=runs/demo_distilled

leaves what `experiments.train` leaves, and goes on like it. In the metrics
`loss` is the divergence, and `validation_acceptance` the mean of sum min(p, q)
over the validation text: if the target wrote that, at the temperature of the
divergence, it is the paper's alpha.
"""

import dataclasses
import logging
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax

import specdec_jax as sd
from experiments import checkpoint, compilation_cache, gin_cli, train
from experiments.decoding.pair import weights_checksum
from experiments.training import data as training_data
from experiments.training import loop as training_loop
from experiments.training import model as training_model
from experiments.training.data_mixture import KINDS, Fractions, MixedBatches
from experiments.training.on_policy import OnPolicyStep
from experiments.training.run import TrainingRun
from specdec_jax.array_typing import Params
from specdec_jax.training import batching, step
from specdec_jax.training.acceptance import make_acceptance_step
from specdec_jax.training.batching import Batch
from specdec_jax.training.distillation import Divergence
from specdec_jax.training.optimizer import OptimizerConfig

log = logging.getLogger(__name__)

CONFIGURABLES = (
  *train.CONFIGURABLES,
  Divergence,
  Fractions,
  sd.SamplingConfig,
)


def run(
  *,
  target: str,
  data: training_data.Examples,
  divergence: Divergence,
  optimizer: OptimizerConfig,
  loop: training_loop.LoopConfig,
  output_dir: str,
  model: training_model.Config | str | None = None,
  target_text: training_data.Examples | None = None,
  fractions: Fractions | None = None,
  write_every: int = 10,
  target_size: str | None = None,
  initial: str | None = None,
  initial_size: str | None = None,
  tokens_per_batch: int = 1024,
  widths: Sequence[int] = (16, 24, 32, 48, 64, 96),
  target_widths: Sequence[int] | None = None,
  microbatches: int = 1,
  validation_examples: int = 400,
  dtype: str | None = None,
  matmul_precision: str | None = None,
  data_parallel: int | None = None,
  model_parallel: int = 1,
  seed: int = 0,
  resume: bool = True,
) -> pathlib.Path:
  """Trains a draft on the laws of its target.

  What is not explained here is as in `train.run`.

  Args:
    target: The target's checkpoint, a model of the draft's kind and with
      logits of the same width.
    data: Its training split is the text of the kind "corpus", and has the
      sources for "draft"; its validation split is evaluated on.
    divergence: What to make small, and how the pair will decode. The draft
      draws like that too.
    optimizer: The optimizer and its learning rate.
    loop: How long to train, and how often to log, evaluate and save.
    output_dir: Where all of it goes.
    model: The draft's shape; None for that of `initial`. There is no dropout.
    target_text: Its training split is the kind "target": what
      `experiments.generate_text` wrote.
    fractions: The shares of the three kinds; None for the target's writing
      alone.
    write_every: Steps between two times that the draft writes, for all steps
      of the kind "draft" in between. `LoopConfig.checkpoint_every` must be a
      multiple of it.
    target_size: The target's size, where its folder does not tell.
    initial: A checkpoint of a draft to start from; None for random values.
    initial_size: Its size, where its folder does not tell.
    tokens_per_batch: Padded target tokens of a batch.
    widths: Buckets of lengths.
    target_widths: Buckets of the targets' lengths, if they are much shorter.
    microbatches: Parts of a batch.
    validation_examples: How many examples to evaluate on.
    dtype: What the draft computes in.
    matmul_precision: How precise float32 products are.
    data_parallel: Devices along the batch.
    model_parallel: Devices along the parameters.
    seed: Of parameters, data and draws.
    resume: Whether to go on from what is in `output_dir`.

  Returns:
    The draft's path.

  Raises:
    FileNotFoundError: If a file is missing.
    ValueError: If something does not fit together, an example is bad, or
      `output_dir` holds another run.
  """
  fractions = fractions or Fractions()
  _check(fractions, data, target_text, write_every, loop)
  shape = _shape(model, initial, initial_size, dtype)
  training = TrainingRun(
    model=dataclasses.replace(shape, dropout_rate=0.0),
    optimizer=optimizer,
    loop=loop,
    output_dir=output_dir,
    initial=initial,
    initial_size=initial_size,
    tokens_per_batch=tokens_per_batch,
    widths=widths,
    target_widths=target_widths,
    microbatches=microbatches,
    dtype=dtype,
    data_parallel=data_parallel,
    model_parallel=model_parallel,
    seed=seed,
    resume=resume,
    matmul_precision=matmul_precision,
  )
  draft = training.network
  if fractions.draft and getattr(draft, "shares_encoder", False):
    raise ValueError(
      f"Fractions.draft is {fractions.draft}, but the draft shares its target's"
      " encoder, and does not write alone here; set it to 0.0."
    )
  training.load_vocabulary(data.vocabulary)
  examples = {}
  if fractions.corpus or fractions.draft:
    pairs = training.load(data, "train")
    examples = {
      kind: pairs for kind in ("corpus", "draft") if getattr(fractions, kind)
    }
  if target_text is not None and fractions.target:
    examples["target"] = training.load(target_text, "train")
  held_out = training.load(data, "validation", validation_examples)
  batches = MixedBatches(
    fractions,
    {
      kind: batching.Batches(
        pairs,
        # In an order of its own: two kinds may have the same examples.
        dataclasses.replace(training.settings, seed=seed + KINDS.index(kind)),
      )
      for kind, pairs in examples.items()
    },
  )
  teacher, teacher_params = training.load_teacher(target, target_size)
  if teacher.vocab_size != draft.vocab_size:
    raise ValueError(
      f"The target {target} has {teacher.vocab_size} logits, the draft"
      f" {draft.vocab_size}; give the draft's shape the target's vocab_size."
    )
  train_step = step.make_train_step(
    draft,
    training.transformation,
    teacher=teacher,
    distillation_weight=1.0,
    divergence=divergence,
    microbatches=microbatches,
    shardings=training.shardings,
  )
  if fractions.draft:
    train_step = OnPolicyStep(
      train_step,
      model=draft,
      batches=batches,
      sampling=divergence.sampling,
      key=jax.random.fold_in(jax.random.key(seed), 1),
      steps=loop.steps,
      every=write_every,
      joined=training.decoder_only,
      place=training.place,
    )
  return training.fit(
    train_step=train_step,
    evaluate=_evaluation(
      make_acceptance_step(draft, teacher, divergence),
      teacher_params,
      batching.in_order(held_out, training.settings),
      training.place,
    ),
    batches=batches,
    manifest={
      "target": {"path": target, "weights": weights_checksum(teacher_params)},
      "divergence": dataclasses.asdict(divergence),
      "fractions": dataclasses.asdict(fractions),
      "write_every": write_every,
      "examples": {
        kind: training_data.checksum(pairs) for kind, pairs in examples.items()
      },
      "held_out": training_data.checksum(held_out),
    },
    extra=(teacher_params,),
  )


def _shape(
  model: training_model.Config | str | None,
  initial: str | None,
  initial_size: str | None,
  dtype: str | None,
) -> training_model.Config:
  if model is None:
    if initial is None:
      raise ValueError(
        "model and initial are both None; give the draft's shape, or a"
        " checkpoint of a draft to start from."
      )
    model = checkpoint.load(initial, initial_size)[0].config
  return training_model.make(model, dtype).config


def _check(
  fractions: Fractions,
  data: training_data.Examples,
  target_text: training_data.Examples | None,
  write_every: int,
  loop: training_loop.LoopConfig,
) -> None:
  if fractions.target and target_text is None:
    raise ValueError(
      f"Fractions.target is {fractions.target}, and target_text is None; give"
      " what experiments.generate_text wrote, or set Fractions.target=0."
    )
  if target_text is not None and target_text.vocabulary != data.vocabulary:
    raise ValueError(
      f"data has the vocabulary {data.vocabulary}, target_text"
      f" {target_text.vocabulary}; both must have the target's."
    )
  if not isinstance(write_every, int) or write_every < 1:
    raise ValueError(
      f"write_every is {write_every!r}; it must be a positive integer."
    )
  if fractions.draft and loop.checkpoint_every % write_every:
    raise ValueError(
      f"LoopConfig.checkpoint_every is {loop.checkpoint_every}, no multiple of"
      f" write_every = {write_every}: a run that goes on would write other"
      " text than one that was not interrupted. Change one of them."
    )


def _evaluation(
  acceptance_step: Callable,
  target_params: Params,
  batches: Sequence[Batch],
  place: Callable[[Any], Any],
) -> Callable[[Params], dict[str, float]]:
  """Returns what scores the draft's parameters."""

  def evaluate(params):
    sums = zip(
      *(
        acceptance_step(params, target_params, *place(batch))
        for batch in batches
      ),
      strict=True,
    )
    divergence, accepted, tokens = (sum(map(float, each)) for each in sums)
    return {
      "validation_divergence": divergence / tokens,
      "validation_acceptance": accepted / tokens,
    }

  return evaluate


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  logging.getLogger("absl").setLevel(logging.WARNING)
  compilation_cache.enable()
  gin_cli.main(run, name="distill", configurables=CONFIGURABLES)
