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
from collections.abc import Sequence

from experiments import compilation_cache, gin_cli
from experiments.training import data as training_data
from experiments.training import evaluation as training_evaluation
from experiments.training import loop as training_loop
from experiments.training import model as training_model
from experiments.training.run import TrainingRun
from experiments.training.seqio_task import SeqioTask
from specdec_jax import lm, t5
from specdec_jax.training import batching, step
from specdec_jax.training.exits import ExitLoss
from specdec_jax.training.optimizer import OptimizerConfig

log = logging.getLogger(__name__)

CONFIGURABLES = (
  lm.LMConfig,
  t5.T5Config,
  training_data.TextFiles,
  SeqioTask,
  OptimizerConfig,
  ExitLoss,
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
  exit_loss: ExitLoss | None = None,
  teacher: str | None = None,
  distillation_weight: float = 0.0,
  tokens_per_batch: int = 1024,
  widths: Sequence[int] = (16, 24, 32, 48, 64, 96),
  target_widths: Sequence[int] | None = None,
  microbatches: int = 1,
  validation_examples: int = 400,
  score: training_evaluation.GreedyScore | None = None,
  dtype: str | None = None,
  matmul_precision: str | None = None,
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
    exit_loss: What early exits add to the objective, so that the model can
      draft for itself; None for nothing.
    teacher: A checkpoint whose distributions to imitate; None for none.
    distillation_weight: See `step.make_train_step`.
    tokens_per_batch: See `batching.Batching.tokens`.
    widths: See `batching.Batching.widths`; longer examples are left out.
    target_widths: See `batching.Batching.target_widths`; examples with longer
      targets are left out.
    microbatches: See `step.make_train_step`.
    validation_examples: How many examples to evaluate on.
    score: A metric of greedy outputs to evaluate by besides; None for none.
    dtype: What to compute in, "float32" or "bfloat16"; None for float32 on a
      processor and bfloat16 on an accelerator.
    matmul_precision: "BF16_BF16_F32" rounds the operands of float32 products
      to bfloat16, for processors with AMX; see `t5.matmul`. None for what the
      device does by itself.
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
  training = TrainingRun(
    model=model,
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
  network = training.network
  tokenizer = training.load_vocabulary(data.vocabulary)
  _check(network, score, exit_loss, teacher, distillation_weight)
  examples = training.load(data, "train")
  held_out = training.load(data, "validation", validation_examples)
  batches = batching.Batches(examples, training.settings)
  log.info("%d examples, %d batches an epoch", len(examples), batches.per_epoch)
  teacher_model, teacher_params = None, None
  if teacher is not None:
    teacher_model, teacher_params = training.load_teacher(teacher)
  eval_step = step.make_eval_step(network)
  eval_batches = batching.in_order(held_out, training.settings)

  exits = training_evaluation.Exits(
    network, () if exit_loss is None else exit_loss.exits
  )

  def evaluate(params):
    scores = training_evaluation.held_out_loss(
      eval_step, params, map(training.place, eval_batches)
    )
    scores |= exits.acceptance(params, map(training.place, eval_batches))
    if score is not None:
      scores |= score(network, params, held_out, tokenizer, widths)
    return scores

  return training.fit(
    train_step=step.make_train_step(
      network,
      training.transformation,
      z_loss=z_loss,
      label_smoothing=label_smoothing,
      exit_loss=exit_loss,
      teacher=teacher_model,
      distillation_weight=distillation_weight,
      microbatches=microbatches,
      shardings=training.shardings,
    ),
    evaluate=evaluate,
    batches=batches,
    manifest={
      "objective": {
        "z_loss": z_loss,
        "label_smoothing": label_smoothing,
        "teacher": teacher,
        "distillation_weight": distillation_weight,
        "exit_loss": exit_loss and dataclasses.asdict(exit_loss),
      },
      "examples": training_data.checksum(examples),
      "held_out": training_data.checksum(held_out),
    },
    extra=(teacher_params,),
  )


def _check(network, score, exit_loss, teacher, distillation_weight) -> None:
  """Checks what needs no examples."""
  if getattr(network, "shares_encoder", False):
    raise ValueError(
      "train.model has no encoder (num_encoder_layers is 0); what shares its"
      " target's learns beside it: python -m experiments.distill."
    )
  if exit_loss is not None:
    exit_loss.check(network)
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


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  logging.getLogger("absl").setLevel(logging.WARNING)
  compilation_cache.enable()
  gin_cli.main(run, name="train", configurables=CONFIGURABLES)
