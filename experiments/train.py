"""Trains one half of the demo pair; run again, it goes on where it stopped.

    python -m experiments.train_demo --gin_file=train/demo_target.gin \
      --gin.DATA='"ende_train.tsv.gz"' \
      --gin.VALIDATION='"ende_validation.tsv.gz"' --output_dir=runs/demo_target

leaves the model in output_dir/model, as bfloat16.
"""

import logging
import pathlib
from collections.abc import Sequence

import jax

from experiments import compilation_cache, gin_cli, training_loop, training_text
from experiments.paths import resolve
from specdec_jax import t5
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from specdec_jax.training import batching, growth, optimizer, step

log = logging.getLogger(__name__)

MODEL = "model"


def run(
  *,
  data: Sequence[str],
  validation: str,
  vocabulary: str,
  output_dir: str,
  model: t5.T5Config,
  loop: training_loop.LoopConfig,
  learning_rate: float,
  initial: str | None = None,
  warmup_steps: int = 100,
  decay_steps: int = 1000,
  clip_norm: float = 1.0,
  z_loss: float = 1e-4,
  label_smoothing: float = 0.0,
  teacher: str | None = None,
  distillation_weight: float = 0.0,
  tokens_per_batch: int = 1024,
  widths: Sequence[int] = (16, 24, 32, 48, 64, 96),
  origins: Sequence[str] = (),
  validation_examples: int = 400,
  seed: int = 0,
) -> pathlib.Path:
  """Trains a T5.

  Args:
    data: Files with examples; see `training_text.load`.
    validation: One more such file, to evaluate on.
    vocabulary: The SentencePiece model of both languages.
    output_dir: Where the model, checkpoints and metrics.jsonl go.
    model: The shape; its vocabulary's size must be that of `vocabulary`.
    loop: How long to train.
    learning_rate: The highest; see `optimizer.scaled_adam`.
    initial: A checkpoint to start from, grown to the shape if it is smaller
      (see `growth.grow`); None for random values. A run that goes on has its
      own.
    warmup_steps: First steps, over which it rises to that.
    decay_steps: Last steps, over which it falls to 0. A run that goes on may
      have other `steps` than before as long as the fall has not begun.
    clip_norm: Largest norm of a gradient.
    z_loss: See `loss.cross_entropy`.
    label_smoothing: See `loss.cross_entropy`.
    teacher: A checkpoint whose distributions to imitate; None for none.
    distillation_weight: See `step.make_train_step`.
    tokens_per_batch: See `batching.Batching.tokens`.
    widths: See `batching.Batching.widths`; longer examples are left out.
    origins: Which rows of a text to use; empty for all.
    validation_examples: How many examples to evaluate on.
    seed: Of the parameters and of the order of the data.

  Returns:
    The model's path.
  """
  compilation_cache.enable()
  tokenizer = SentencePieceVocabulary(resolve(vocabulary))
  if tokenizer.vocab_size != model.vocab_size:
    raise ValueError(
      f"The vocabulary {vocabulary} has {tokenizer.vocab_size} ids, the model"
      f" {model.vocab_size}; set T5Config.vocab_size to the former."
    )
  if (teacher is None) != (distillation_weight == 0.0):
    raise ValueError(
      f"teacher is {teacher!r} and distillation_weight"
      f" {distillation_weight}; give both, or neither."
    )

  def load(path, limit=None):
    return training_text.load(
      path,
      vocabulary=tokenizer,
      max_tokens=max(widths),
      origins=origins,
      limit=limit,
    )

  settings = batching.Batching(tokens_per_batch, tuple(widths), seed)
  batches = batching.Batches(
    [pair for path in data for pair in load(path)], settings
  )
  held_out = batching.Batches(load(validation, validation_examples), settings)

  network = t5.T5Model(model)
  teacher_model, teacher_params = None, None
  if teacher is not None:
    teacher_model, teacher_params = t5.load(None, resolve(teacher))
  transformation = optimizer.scaled_adam(
    optimizer.schedule(learning_rate, loop.steps, warmup_steps, decay_steps),
    clip_norm=clip_norm,
  )
  init_key, dropout_key = jax.random.split(jax.random.key(seed))
  if initial is None:
    params = network.init(init_key)
  else:
    smaller, params = t5.load(None, resolve(initial))
    params = growth.grow(init_key, smaller.config, params, model)
  state = step.init(params, transformation)
  log.info(
    "%d parameters, %d batches an epoch",
    sum(each.size for each in jax.tree.leaves(state.params)),
    batches.per_epoch,
  )
  state = training_loop.train(
    state=state,
    train_step=step.make_train_step(
      network,
      transformation,
      z_loss=z_loss,
      label_smoothing=label_smoothing,
      teacher=teacher_model,
      distillation_weight=distillation_weight,
    ),
    eval_step=step.make_eval_step(network),
    batches=batches,
    held_out=held_out.in_order(),
    key=dropout_key,
    config=loop,
    output_dir=output_dir,
    extra=(teacher_params,),
  )
  path = pathlib.Path(output_dir) / MODEL
  t5.save(path, network, state.params, dtype="bfloat16", overwrite=True)
  return path


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  logging.getLogger("absl").setLevel(logging.WARNING)
  gin_cli.main(
    run,
    name="train_demo",
    configurables=(t5.T5Config, training_loop.LoopConfig),
  )
