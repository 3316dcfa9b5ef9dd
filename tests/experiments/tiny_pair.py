"""A tiny random pair on disk, and texts that its vocabulary knows."""

import pathlib

import jax
import jax.numpy as jnp
import sentencepiece

from specdec_jax import t5

TEXTS = [
  "the file was not found",
  "hello world",
  "this is the size of the window",
  "how is it going",
  "the world is not the window, this file is",
  "a file",
  "it was found in the window of the world",
  "not this size",
  "hello",
  "the size of the file was not the size of the window",
]

SIZES = {
  "emb_dim": 32,
  "num_heads": 2,
  "head_dim": 16,
  "mlp_dim": 64,
  "num_encoder_layers": 1,
  "num_decoder_layers": 1,
  "mlp_activations": ("gelu", "linear"),
  "logits_via_embedding": False,
}


def train_vocabulary(path: pathlib.Path, texts=TEXTS, vocab_size=64) -> int:
  with open(path, "wb") as f:
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(texts * 10),
      model_writer=f,
      vocab_size=vocab_size,
      hard_vocab_limit=False,
      pad_id=0,
      eos_id=1,
      unk_id=2,
      bos_id=-1,
      minloglevel=2,
    )
  processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
  return processor.get_piece_size()


def save_zeros(path: pathlib.Path, *, vocab_size: int) -> pathlib.Path:
  """Saves a model that has a shape and nothing else."""
  model = t5.T5Model(t5.T5Config(vocab_size=vocab_size, **SIZES))
  zeros = jax.tree.map(lambda x: jnp.zeros(x.shape), model.param_shapes())
  t5.save(path, model, zeros)
  return path


def save_two_layers(path: pathlib.Path, *, vocab_size: int) -> t5.T5Model:
  """Saves a random target whose decoder has an early exit, and returns it."""
  sizes = SIZES | {"num_decoder_layers": 2}
  model = t5.T5Model(t5.T5Config(vocab_size=vocab_size, **sizes))
  t5.save(path, model, model.init(jax.random.key(0)))
  return model


def make_pair(folder: pathlib.Path) -> pathlib.Path:
  """Saves target, draft and sentencepiece.model.

  The draft is the target with some noise, so that some guesses hold.
  """
  folder.mkdir(parents=True, exist_ok=True)
  size = train_vocabulary(folder / "sentencepiece.model")
  target = t5.T5Model(t5.T5Config(vocab_size=size, **SIZES))
  params = target.init(jax.random.key(0))
  t5.save(folder / "target", target, params)
  noise = target.init(jax.random.key(1))
  draft_params = jax.tree.map(lambda x, n: x + 0.1 * n, params, noise)
  t5.save(folder / "draft", target, draft_params)
  return folder
