"""Trains one half of the demo pair on a parallel corpus.

  python -m experiments.train_demo \
    --gin_file=gin_configs/train/demo_target.gin \
    --gin.DATA="'ende_train.tsv.gz'" --gin.OUTPUT="'/tmp/demo_target'"

A run that is started again goes on from its last checkpoint.
"""

import argparse
import dataclasses
import json
import logging
import os
import time
from collections.abc import Sequence

import gin
import jax
import numpy as np
import sentencepiece

from experiments import parallel_text
from specdec_jax.t5.config import T5Config
from specdec_jax.t5.model import T5Model
from specdec_jax.training import batching, optimizer, step

log = logging.getLogger(__name__)


def encode_rows(
    rows: Sequence[parallel_text.Row],
    vocabulary: sentencepiece.SentencePieceProcessor,
    max_tokens: int,
) -> list[tuple[list[int], list[int]]]:
  """Returns token ids with EOS; drops and counts rows that are too long."""
  eos = vocabulary.eos_id()
  sources = vocabulary.encode([row.source for row in rows])
  targets = vocabulary.encode([row.target for row in rows])
  pairs = [
      ([*source, eos], [*target, eos])
      for source, target in zip(sources, targets, strict=True)
  ]
  kept = [pair for pair in pairs if max(map(len, pair)) <= max_tokens]
  log.info(
      "%d rows; kept %d (%d target tokens), dropped %d with a side of more"
      " than %d tokens",
      len(pairs),
      len(kept),
      sum(len(target) for _, target in kept),
      len(pairs) - len(kept),
      max_tokens,
  )
  return kept


def evaluate(eval_step, params, batches) -> dict[str, float]:
  """Returns mean loss of a target token and the share the argmax hits."""
  loss, hits, tokens = (
      sum(map(float, each))
      for each in zip(
          *(eval_step(params, *batch) for batch in batches), strict=True
      )
  )
  return {"validation_loss": loss / tokens, "validation_accuracy": hits / tokens}


def run(
    *,
    data: str,
    validation: str,
    vocabulary: str,
    output: str,
    emb_dim: int,
    num_heads: int,
    head_dim: int,
    mlp_dim: int,
    num_encoder_layers: int,
    num_decoder_layers: int,
    steps: int,
    learning_rate: float,
    warmup_steps: int = 100,
    decay_steps: int = 1000,
    embedding_scale: float = 1.0,
    weight_decay: float = 0.01,
    clip_norm: float = 1.0,
    z_loss: float = 1e-4,
    label_smoothing: float = 0.0,
    dropout_rate: float = 0.0,
    tokens_per_batch: int = 1024,
    widths: Sequence[int] = (16, 24, 32, 48, 64, 96),
    origins: Sequence[str] = (),
    seed: int = 0,
    log_every: int = 20,
    evaluate_every: int = 400,
    checkpoint_every: int = 250,
    validation_examples: int = 400,
) -> str:
  """Trains a T5 1.1 from scratch; returns the directory it wrote.

  Args:
    data: Training TSV; see `parallel_text`.
    validation: Validation TSV.
    vocabulary: SentencePiece model of both languages.
    output: Directory for checkpoints and `metrics.jsonl`.
    emb_dim: See `T5Config`, as for the next five.
    num_heads: Attention heads.
    head_dim: Width of a head.
    mlp_dim: Hidden width of the feed-forward block.
    num_encoder_layers: Layers of the encoder.
    num_decoder_layers: Layers of the decoder.
    steps: Steps of the whole run.
    learning_rate: Its peak.
    warmup_steps: Steps of the rise to it.
    decay_steps: Last steps, over which it falls to 0. A resumed run may
      change `steps` as long as the fall has not begun.
    embedding_scale: See `step.init`.
    weight_decay: Of AdamW.
    clip_norm: Largest norm of the gradient.
    z_loss: See `loss.cross_entropy`.
    label_smoothing: See `loss.cross_entropy`.
    dropout_rate: See `T5Config`.
    tokens_per_batch: See `batching.Batching.tokens`.
    widths: See `batching.Batching.widths`; longer rows are dropped.
    origins: Which rows of the text to use; empty for all.
    seed: Of the parameters and the data's order.
    log_every: Steps between lines of training metrics.
    evaluate_every: Steps between evaluations.
    checkpoint_every: Steps between checkpoints.
    validation_examples: Rows of the validation text to use.
  """
  import orbax.checkpoint as ocp

  processor = sentencepiece.SentencePieceProcessor(model_file=vocabulary)
  settings = batching.Batching(tokens_per_batch, tuple(widths), seed)
  batches = batching.Batches(
      encode_rows(
          list(parallel_text.read(data, origins)), processor, max(widths)
      ),
      settings,
  )
  held_out = batching.Batches(
      encode_rows(
          list(parallel_text.read(validation, origins)),
          processor,
          max(widths),
      )[:validation_examples],
      settings,
  ).in_order()

  config = T5Config(
      vocab_size=processor.vocab_size(),
      emb_dim=emb_dim,
      num_heads=num_heads,
      head_dim=head_dim,
      mlp_dim=mlp_dim,
      num_encoder_layers=num_encoder_layers,
      num_decoder_layers=num_decoder_layers,
      mlp_activations=("gelu", "linear"),
      logits_via_embedding=False,
      dropout_rate=dropout_rate,
  )
  model = T5Model(config)
  transformation = optimizer.adamw(
      optimizer.schedule(learning_rate, steps, warmup_steps, decay_steps),
      weight_decay=weight_decay,
      clip_norm=clip_norm,
  )
  init_key, dropout_key = jax.random.split(jax.random.key(seed))
  state = step.init(
      model, transformation, init_key, embedding_scale=embedding_scale
  )
  log.info(
      "%d parameters, %d batches an epoch",
      sum(each.size for each in jax.tree.leaves(state.params)),
      batches.per_epoch,
  )
  train_step = step.make_train_step(
      model, transformation, z_loss=z_loss, label_smoothing=label_smoothing
  )
  eval_step = step.make_eval_step(model)

  os.makedirs(output, exist_ok=True)
  with open(os.path.join(output, "config.json"), "w") as file:
    json.dump(dataclasses.asdict(config), file, indent=2)
  metrics_file = open(os.path.join(output, "metrics.jsonl"), "a")

  def record(**values):
    metrics_file.write(json.dumps(values) + "\n")
    metrics_file.flush()

  with ocp.CheckpointManager(
      os.path.abspath(os.path.join(output, "checkpoints")),
      options=ocp.CheckpointManagerOptions(
          max_to_keep=2, enable_async_checkpointing=False
      ),
  ) as checkpoints:
    if checkpoints.latest_step() is not None:
      state = checkpoints.restore(
          checkpoints.latest_step(), args=ocp.args.StandardRestore(state)
      )
      log.info("resumed at step %d", int(state.step))
    first = int(state.step)
    start, seen, loss_sum, token_sum = time.monotonic(), 0, 0.0, 0
    for number in range(first, steps):
      state, metrics = train_step(state, *batches[number], dropout_key)
      tokens = int(metrics.tokens)
      loss_sum += float(metrics.loss) * tokens
      token_sum += tokens
      seen += tokens
      done = number + 1
      if done % log_every == 0 or done == steps:
        elapsed = time.monotonic() - start
        left = elapsed / (done - first) * (steps - done)
        record(
            step=done,
            loss=loss_sum / token_sum,
            grad_norm=float(metrics.grad_norm),
            tokens=token_sum,
            elapsed=elapsed,
        )
        log.info(
            "step %d/%d  loss %.3f  norm %.2f  %.0f tokens/s  %.0f min left",
            done,
            steps,
            loss_sum / token_sum,
            float(metrics.grad_norm),
            seen / elapsed,
            left / 60,
        )
        loss_sum, token_sum = 0.0, 0
      if done % evaluate_every == 0 or done == steps:
        scores = evaluate(eval_step, state.params, held_out)
        record(step=done, **scores)
        log.info("step %d  %s", done, scores)
      if done % checkpoint_every == 0 or done == steps:
        checkpoints.save(done, args=ocp.args.StandardSave(state))
  metrics_file.close()
  return output


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--gin_file", action="append", default=[])
  arguments, rest = parser.parse_known_args()
  bindings = []
  for each in rest:
    if not each.startswith("--gin."):
      parser.error(f"unknown argument {each!r}; bindings are --gin.NAME=VALUE")
    bindings.append(each.removeprefix("--gin."))
  logging.basicConfig(
      level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
  )
  logging.getLogger("absl").setLevel(logging.WARNING)
  configured = gin.external_configurable(run, "run", module="train_demo")
  gin.parse_config_files_and_bindings(arguments.gin_file, bindings)
  configured()


if __name__ == "__main__":
  main()
