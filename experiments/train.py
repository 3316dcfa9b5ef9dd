"""Trains a T5 or a language model; run again, it goes on where it stopped.

    python -m experiments.train --gin_file=gin_configs/train/ende_target.gin

leaves in its output_dir the model (model/, as bfloat16, for `t5.load` or
`lm.load`), metrics.jsonl and the same as events for TensorBoard (tensorboard/),
and the newest two checkpoints. A run goes on from the newest. One that would go
another way than the run which is there is refused: all may change but what
decides on the parameters, which manifest.json holds. `steps` may change until
the learning rate begins to fall.
"""

import dataclasses
import logging
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import jax

from experiments import (
  compilation_cache,
  gin_cli,
  training_checkpoints,
  training_data,
  training_evaluation,
  training_loop,
  training_metrics,
  training_model,
)
from experiments.paths import resolve
from experiments.seqio_task import SeqioTask
from experiments.training_progress import Averages
from specdec_jax import lm, partitioning, t5
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from specdec_jax.training import batching, sharding, step
from specdec_jax.training.optimizer import OptimizerConfig

log = logging.getLogger(__name__)

MODEL = "model"

CONFIGURABLES = (
  lm.LMConfig,
  t5.T5Config,
  training_data.TextFiles,
  SeqioTask,
  OptimizerConfig,
  training_loop.LoopConfig,
  training_evaluation.GreedyScore,
)


def run(
  *,
  model: training_model.Config | str,
  data: training_data.Examples,
  optimizer: OptimizerConfig,
  loop: training_loop.LoopConfig,
  output_dir: str,
  initial: str | None = None,
  initial_size: str | None = None,
  z_loss: float = 1e-4,
  label_smoothing: float = 0.0,
  teacher: str | None = None,
  distillation_weight: float = 0.0,
  tokens_per_batch: int = 1024,
  widths: Sequence[int] = (16, 24, 32, 48, 64, 96),
  microbatches: int = 1,
  validation_examples: int = 400,
  score: training_evaluation.GreedyScore | None = None,
  dtype: str | None = None,
  data_parallel: int | None = None,
  model_parallel: int = 1,
  seed: int = 0,
  resume: bool = True,
) -> pathlib.Path:
  """Trains a model.

  Args:
    model: Its shape, a `T5Config` or an `LMConfig`, or the name of a size. It
      needs an embedding for each id of the vocabulary.
    data: Examples: a `TextFiles` or a `SeqioTask`.
    optimizer: The optimizer and its learning rate.
    loop: How long to train, and how often to log, evaluate and save.
    output_dir: Where all of it goes.
    initial: A checkpoint to start from; see `training_model.start`. A run that
      goes on has its own.
    initial_size: Its size, where its folder does not tell, as T5X's does not.
    z_loss: See `loss.cross_entropy`.
    label_smoothing: See `loss.cross_entropy`.
    teacher: A checkpoint whose distributions to imitate; None for none.
    distillation_weight: See `step.make_train_step`.
    tokens_per_batch: See `batching.Batching.tokens`.
    widths: See `batching.Batching.widths`; longer examples are left out.
    microbatches: See `step.make_train_step`.
    validation_examples: How many examples to evaluate on.
    score: A metric of greedy outputs to evaluate by besides; None for none.
    dtype: What to compute in, "float32" or "bfloat16"; None for float32 on a
      processor and bfloat16 on an accelerator.
    data_parallel: Over how many devices to share out a batch; None for as many
      as there are.
    model_parallel: Over how many devices to share out the parameters.
    seed: Of the parameters, dropout and the order of the data.
    resume: Whether to go on from what is in `output_dir`; otherwise that is
      deleted.

  Returns:
    The model's path.

  Raises:
    FileNotFoundError: If a file is missing.
    ValueError: If something does not fit together, an example is bad, or
      `output_dir` holds another run.
  """
  compilation_cache.enable()
  network = training_model.make(model, dtype)
  tokenizer = SentencePieceVocabulary(resolve(data.vocabulary))
  _check(network, tokenizer, score, teacher, distillation_weight)
  transformation = optimizer.make(loop.steps)
  mesh = partitioning.make_mesh(data=data_parallel, model=model_parallel)
  wanted = sharding.abstract_state(network, transformation, mesh)

  decoder_only = training_model.is_decoder_only(network)
  settings = batching.Batching(
    tokens_per_batch,
    tuple(widths),
    seed,
    joined=decoder_only,
    rows_multiple=mesh.shape[partitioning.DATA] * microbatches,
  )
  examples = data.load("train", max_tokens=max(widths))
  held_out = data.load(
    "validation", max_tokens=max(widths), limit=validation_examples
  )
  for split, pairs in (("train", examples), ("validation", held_out)):
    training_data.check_kind(pairs, decoder_only=decoder_only, split=split)
  batches = batching.Batches(examples, settings)

  # All that the parameters depend on, but the steps: `_check_steps`.
  manifest = {
    "model": {"kind": network.config.FORMAT}
    | dataclasses.asdict(network.config),
    "initial": initial,
    "optimizer": dataclasses.asdict(optimizer),
    "objective": {
      "z_loss": z_loss,
      "label_smoothing": label_smoothing,
      "teacher": teacher,
      "distillation_weight": distillation_weight,
    },
    "examples": training_data.checksum(examples),
    "held_out": training_data.checksum(held_out),
    "rows": {str(width): settings.rows(width) for width in settings.widths},
    "microbatches": microbatches,
    "seed": seed,
  }
  if not resume:
    # First: states must never stand beside another run's manifest.
    shutil.rmtree(
      pathlib.Path(output_dir) / training_checkpoints.FOLDER,
      ignore_errors=True,
    )
  with (
    training_metrics.MetricsLog(output_dir, manifest, resume=resume) as metrics,
    training_checkpoints.Checkpoints(output_dir) as checkpoints,
  ):
    init_key, dropout_key = jax.random.split(jax.random.key(seed))
    averages = Averages()
    if checkpoints.newest is None:
      params = training_model.start(init_key, network, initial, initial_size)
      state = _first_state(params, transformation, wanted)
    else:
      state, notes = checkpoints.restore(wanted)
      _check_steps(optimizer, notes.pop("steps"), loop.steps, int(state.step))
      averages = Averages(**notes)
      log.info("goes on from step %d", int(state.step))
    metrics.go_on_from(int(state.step))
    log.info(
      "%d parameters in %s, %d examples, %d batches an epoch, mesh %s",
      sum(each.size for each in jax.tree.leaves(state.params)),
      network.config.dtype,
      len(examples),
      batches.per_epoch,
      dict(mesh.shape),
    )

    def place(batch):
      return jax.device_put(batch, partitioning.batch_sharding(mesh))

    teacher_model, teacher_params = _load_teacher(network, teacher, mesh)
    eval_step = step.make_eval_step(network)
    eval_batches = batching.in_order(held_out, settings)

    def evaluate(params):
      scores = training_evaluation.held_out_loss(
        eval_step, params, map(place, eval_batches)
      )
      if score is not None:
        scores |= score(network, params, held_out, tokenizer, widths)
      return scores

    state = training_loop.train(
      state=state,
      averages=averages,
      train_step=step.make_train_step(
        network,
        transformation,
        z_loss=z_loss,
        label_smoothing=label_smoothing,
        teacher=teacher_model,
        distillation_weight=distillation_weight,
        microbatches=microbatches,
        shardings=sharding.shardings(wanted),
      ),
      evaluate=evaluate,
      batches=batches,
      place=place,
      key=dropout_key,
      config=loop,
      metrics=metrics,
      checkpoints=checkpoints,
      notes={"steps": loop.steps},
      extra=(teacher_params,),
    )
  path = pathlib.Path(output_dir) / MODEL
  training_model.save(path, network, state.params)
  return path


def _check(network, tokenizer, score, teacher, distillation_weight) -> None:
  """Checks what needs no examples."""
  if tokenizer.vocab_size > network.vocab_size:
    raise ValueError(
      f"The vocabulary {tokenizer.path} has {tokenizer.vocab_size} ids, the"
      f" model {network.vocab_size}; set its vocab_size to the former."
    )
  if (teacher is None) != (distillation_weight == 0.0):
    raise ValueError(
      f"teacher is {teacher!r} and distillation_weight"
      f" {distillation_weight}; give both, or neither."
    )
  if score is not None:
    if training_model.is_decoder_only(network):
      raise ValueError(
        f"score is {score}, but a language model has no sources whose outputs"
        " could be compared; set it to None."
      )
    score.check_installed()


def _load_teacher(network, teacher, mesh):
  """Returns the teacher and its parameters, where they are to lie."""
  if teacher is None:
    return None, None
  model, params = training_model.load(network, teacher)
  places = partitioning.named_shardings(mesh, model.logical_axes(), params)
  return model, jax.device_put(params, places)


def _first_state(params, transformation, wanted) -> step.TrainState:
  """Returns the state before the first step, where it is to lie."""
  places = sharding.shardings(wanted)
  make = jax.jit(
    lambda params: step.init(params, transformation), out_shardings=places
  )
  return make(jax.device_put(params, places.params))


def _check_steps(
  optimizer: OptimizerConfig, before: Any, now: int, done: int
) -> None:
  """Checks that the steps already done are also those of a run of `now`."""
  if before == now:
    return
  free = min(map(optimizer.steps_before_decay, (before, now)))
  if done > min(free, now):
    raise ValueError(
      f"LoopConfig.steps was {before} and is {now}, but {done} steps are done,"
      f" and the two runs are the same only until step {min(free, now):.0f}."
      f" Set it to {before}, or choose another output_dir."
    )


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  logging.getLogger("absl").setLevel(logging.WARNING)
  gin_cli.main(run, name="train", configurables=CONFIGURABLES)
