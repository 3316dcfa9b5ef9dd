"""A run of the trainer, whatever it learns: begins or goes on, and saves."""

import dataclasses
import logging
import pathlib
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import jax

from experiments.paths import resolve
from experiments.training import checkpoints as training_checkpoints
from experiments.training import data as training_data
from experiments.training import loop as training_loop
from experiments.training import metrics as training_metrics
from experiments.training import model as training_model
from experiments.training import precision as training_precision
from experiments.training.progress import Averages
from experiments.training.text import TokenPair
from specdec_jax import partitioning
from specdec_jax.array_typing import Params
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from specdec_jax.training import batching, sharding, step
from specdec_jax.training.optimizer import OptimizerConfig

log = logging.getLogger(__name__)

MODEL = "model"


class TrainingRun:
  """What all runs have in common.

  Attributes:
    network: The model.
    transformation: Its optimizer.
    shardings: Where its state lies.
    settings: How batches are made.
  """

  def __init__(
    self,
    *,
    model: training_model.Config | str,
    optimizer: OptimizerConfig,
    loop: training_loop.LoopConfig,
    output_dir: str,
    initial: str | None,
    initial_size: str | None,
    tokens_per_batch: int,
    widths: Sequence[int],
    target_widths: Sequence[int] | None,
    microbatches: int,
    dtype: str | None,
    data_parallel: int | None,
    model_parallel: int,
    seed: int,
    resume: bool,
    matmul_precision: str | None = None,
  ):
    """Makes all that needs no examples; arguments are those of `train.run`."""
    self.network = training_model.make(model, dtype)
    training_precision.check(matmul_precision)
    self.transformation = optimizer.make(loop.steps)
    self._mesh = partitioning.make_mesh(
      data=data_parallel, model=model_parallel
    )
    self._wanted = sharding.abstract_state(
      self.network, self.transformation, self._mesh
    )
    self.shardings = sharding.shardings(self._wanted)
    self.settings = batching.Batching(
      tokens_per_batch,
      tuple(widths),
      target_widths=None if target_widths is None else tuple(target_widths),
      seed=seed,
      joined=self.decoder_only,
      rows_multiple=self._mesh.shape[partitioning.DATA] * microbatches,
    )
    self._optimizer = optimizer
    self._loop = loop
    self._output_dir = output_dir
    self._initial = initial
    self._initial_size = initial_size
    self._microbatches = microbatches
    self._seed = seed
    self._resume = resume
    self._matmul_precision = matmul_precision

  @property
  def decoder_only(self) -> bool:
    """Whether the model has no encoder."""
    return training_model.is_decoder_only(self.network)

  def load_vocabulary(self, path: str) -> SentencePieceVocabulary:
    """Reads the vocabulary of the examples.

    Raises:
      FileNotFoundError: If it is not there.
      ValueError: If the model has no embedding for one of its ids.
    """
    tokenizer = SentencePieceVocabulary(resolve(path))
    if tokenizer.vocab_size > self.network.vocab_size:
      raise ValueError(
        f"The vocabulary {tokenizer.path} has {tokenizer.vocab_size} ids, the"
        f" model {self.network.vocab_size}; set its vocab_size to the former."
      )
    return tokenizer

  def load(
    self, data: training_data.Examples, split: str, limit: int | None = None
  ) -> list[TokenPair]:
    """Reads the examples of a split that are not too long."""
    pairs = data.load(split, max_tokens=max(self.settings.widths), limit=limit)
    pairs = self._that_fit(pairs, split)
    training_data.check_kind(pairs, decoder_only=self.decoder_only, split=split)
    return pairs

  def _that_fit(self, pairs: list[TokenPair], split: str) -> list[TokenPair]:
    """Leaves out those with a target that no bucket is wide enough for."""
    if self.settings.target_widths is None:
      return pairs
    kept = [pair for pair in pairs if self.settings.fits(*pair)]
    if not kept:
      raise ValueError(
        f"All {len(pairs)} examples of the {split} split have targets of more"
        f" than {self.settings.target_widths[-1]} tokens; raise target_widths."
      )
    log.info(
      "%s: %d examples left out for a target of more than %d tokens",
      split,
      len(pairs) - len(kept),
      self.settings.target_widths[-1],
    )
    return kept

  def load_teacher(
    self, path: str, size: str | None = None
  ) -> tuple[training_model.Model, Params]:
    """Loads a model of the same kind, and spreads it over the mesh."""
    model, params = training_model.load(self.network, path, size)
    shardings = partitioning.named_shardings(
      self._mesh, model.logical_axes(), params
    )
    return model, jax.device_put(params, shardings)

  def place(self, arrays: Any) -> Any:
    """Puts arrays of a batch's rows where the step wants them."""
    return jax.device_put(arrays, partitioning.batch_sharding(self._mesh))

  def fit(
    self,
    *,
    train_step: Callable,
    evaluate: Callable[[Params], dict[str, float]],
    batches: Any,
    manifest: dict[str, Any],
    extra: tuple[Any, ...] = (),
  ) -> pathlib.Path:
    """Trains until the last step, and saves the model.

    Args:
      train_step: From `make_train_step`.
      evaluate: Returns scores of parameters.
      batches: What to train on; batch i is step i's.
      manifest: What decides on the parameters, but for what is known here.
      extra: More arguments of `train_step`.

    Returns:
      The model's path.

    Raises:
      ValueError: If `output_dir` holds another run.
    """
    config = self.network.config
    # All that the parameters depend on, but the steps: `_check_steps`.
    manifest = {
      "model": {"kind": config.FORMAT} | dataclasses.asdict(config),
      "initial": self._initial,
      "optimizer": dataclasses.asdict(self._optimizer),
      "rows": {
        str(width): self.settings.rows(width) for width in self.settings.widths
      },
      "microbatches": self._microbatches,
      "seed": self._seed,
    } | manifest
    if self.settings.target_widths is not None:
      manifest["target_widths"] = list(self.settings.target_widths)
    if self._matmul_precision is not None:
      manifest["matmul_precision"] = self._matmul_precision
    folder = pathlib.Path(self._output_dir)
    if not self._resume:
      # First: states must never stand beside another run's manifest.
      shutil.rmtree(folder / training_checkpoints.FOLDER, ignore_errors=True)
    with (
      training_metrics.MetricsLog(
        self._output_dir, manifest, resume=self._resume
      ) as metrics,
      training_checkpoints.Checkpoints(self._output_dir) as checkpoints,
      training_precision.context(self._matmul_precision),
    ):
      init_key, dropout_key = jax.random.split(jax.random.key(self._seed))
      state, averages = self._begin(checkpoints, init_key)
      metrics.go_on_from(int(state.step))
      log.info(
        "%d parameters in %s, mesh %s",
        sum(each.size for each in jax.tree.leaves(state.params)),
        config.dtype,
        dict(self._mesh.shape),
      )
      state = training_loop.train(
        state=state,
        averages=averages,
        train_step=train_step,
        evaluate=evaluate,
        batches=batches,
        place=self.place,
        key=dropout_key,
        config=self._loop,
        metrics=metrics,
        checkpoints=checkpoints,
        notes={"steps": self._loop.steps},
        extra=extra,
      )
    training_model.save(folder / MODEL, self.network, state.params)
    return folder / MODEL

  def _begin(self, checkpoints, init_key):
    """Returns the newest state, or the first one."""
    if checkpoints.newest is None:
      params = training_model.start(
        init_key, self.network, self._initial, self._initial_size
      )
      params = jax.device_put(params, self.shardings.params)
      state = jax.jit(
        lambda params: step.init(params, self.transformation),
        out_shardings=self.shardings,
      )(params)
      return state, Averages()
    state, notes = checkpoints.restore(self._wanted)
    _check_steps(
      self._optimizer, notes.pop("steps"), self._loop.steps, int(state.step)
    )
    log.info("goes on from step %d", int(state.step))
    return state, Averages(**notes)


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
