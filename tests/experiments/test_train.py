import gzip
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from experiments import (
  generate_targets,
  train_demo,
  train_vocabulary,
  training_loop,
  training_text,
)
from specdec_jax import t5
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from specdec_jax.tasks import parallel_text
from specdec_jax.training import step
from tests.experiments.tiny_pair import TEXTS
from tests.experiments.tiny_pair import train_vocabulary as tiny_vocab

SIZES = {
  "emb_dim": 16,
  "num_heads": 2,
  "head_dim": 8,
  "mlp_dim": 32,
  "num_encoder_layers": 1,
  "num_decoder_layers": 1,
  "mlp_activations": ("gelu", "linear"),
  "logits_via_embedding": False,
  "dropout_rate": 0.1,
}


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> pathlib.Path:
  """A folder with a parallel text and its vocabulary."""
  folder = tmp_path_factory.mktemp("text")
  with gzip.open(folder / "text.tsv.gz", "wt", encoding="utf-8") as file:
    for number, each in enumerate(TEXTS * 4):
      origin = ("man:pages/ls", "help", "manual:other")[number % 3]
      file.write(f"{each}\t{each.split()[-1]}\t{origin}\n")
  tiny_vocab(folder / "sentencepiece.model")
  return folder


def train(text, output_dir, *, steps=8, **changes):
  vocabulary = str(text / "sentencepiece.model")
  size = SentencePieceVocabulary(vocabulary).vocab_size
  arguments = {
    "data": [str(text / "text.tsv.gz")],
    "validation": str(text / "text.tsv.gz"),
    "vocabulary": vocabulary,
    "output_dir": str(output_dir),
    "model": t5.T5Config(vocab_size=size, **SIZES),
    "loop": training_loop.LoopConfig(
      steps, log_every=1, evaluate_every=4, checkpoint_every=3
    ),
    "learning_rate": 0.03,
    "warmup_steps": 2,
    "decay_steps": 2,
    "tokens_per_batch": 96,
    "widths": (64,),
  }
  return train_demo.run(**{**arguments, **changes})


def curve(output_dir, field="loss"):
  with open(pathlib.Path(output_dir) / training_loop.METRICS) as lines:
    rows = [json.loads(line) for line in lines]
  return {row["step"]: row[field] for row in rows if field in row}


def parameters(path):
  return jax.tree.leaves(t5.load(None, path)[1])


def test_it_learns_and_leaves_a_model(text, tmp_path):
  path = train(text, tmp_path, steps=60)
  losses = curve(tmp_path)
  assert losses[60] < 0.7 * losses[1]
  validation = curve(tmp_path, "validation_loss")
  assert set(validation) == set(range(4, 61, 4))
  assert validation[60] < 0.7 * validation[4]
  model, params = t5.load(None, path)
  assert model.config.emb_dim == 16
  assert params["token_embedder"]["embedding"].shape[1] == 16


def test_training_may_start_from_a_checkpoint(text, tmp_path):
  first = train(text, tmp_path / "first", steps=60)
  train(text, tmp_path / "second", initial=str(first))
  reached = curve(tmp_path / "first", "validation_loss")
  # A run from random values is far from that after four steps.
  assert curve(tmp_path / "second", "validation_loss")[4] < reached[20]


def test_training_may_start_from_a_smaller_model(text, tmp_path):
  first = train(text, tmp_path / "first", steps=60)
  vocabulary = SentencePieceVocabulary(str(text / "sentencepiece.model"))
  sizes = {**SIZES, "vocab_size": vocabulary.vocab_size}
  larger = t5.T5Config(**{**sizes, "emb_dim": 24, "num_decoder_layers": 2})
  train(text, tmp_path / "larger", initial=str(first), model=larger)
  reached = curve(tmp_path / "first", "validation_loss")
  assert curve(tmp_path / "larger", "validation_loss")[4] < reached[20]
  with pytest.raises(ValueError, match="mlp_dim is 24, less than the 32"):
    train(
      text,
      tmp_path / "smaller",
      initial=str(first),
      model=t5.T5Config(**{**sizes, "mlp_dim": 24}),
    )


def test_an_interrupted_run_repeats_the_uninterrupted_one(
  text, tmp_path, monkeypatch
):
  whole = train(text, tmp_path / "whole")
  make_train_step = step.make_train_step

  def make_failing_step(*args, **kwargs):
    train_step = make_train_step(*args, **kwargs)

    def failing(state, *rest):
      if int(state.step) == 5:
        raise KeyboardInterrupt
      return train_step(state, *rest)

    return failing

  monkeypatch.setattr(step, "make_train_step", make_failing_step)
  with pytest.raises(KeyboardInterrupt):
    train(text, tmp_path / "halves")
  monkeypatch.undo()
  before = curve(tmp_path / "halves")
  assert set(before) == {1, 2, 3, 4, 5}
  halves = train(text, tmp_path / "halves")
  # Steps 4 and 5 were done twice: the last checkpoint was that of step 3.
  assert curve(tmp_path / "halves") == curve(tmp_path / "whole")
  assert before == {n: curve(tmp_path / "whole")[n] for n in before}
  for a, b in zip(parameters(halves), parameters(whole), strict=True):
    np.testing.assert_array_equal(a, b)


def test_a_draft_learns_from_what_its_target_says(text, tmp_path):
  target = train(text, tmp_path / "target", steps=80)
  generated = generate_targets.run(
    target=str(target),
    vocabulary=str(text / "sentencepiece.model"),
    data=str(text / "text.tsv.gz"),
    output_dir=str(tmp_path / "generated"),
    limit=23,
    widths=(64,),
    max_new_tokens=16,
    batch_size=8,
  )
  pairs = training_text.read_generated(str(generated))
  model, params = t5.load(None, target)
  for source, tokens in pairs[:3]:
    assert tokens[-1] == 1
    output = sd.autoregressive_generate(
      jax.random.key(0),
      jnp.array([source]),
      model=model,
      params=params,
      config=sd.SpeculativeConfig(
        gamma=0,
        max_new_tokens=len(tokens),
        sampling=sd.SamplingConfig(temperature=0.0),
      ),
    )
    assert np.asarray(output.tokens)[0].tolist() == tokens
  train(
    text,
    tmp_path / "draft",
    steps=60,
    data=[str(generated)],
    validation=str(generated),
    teacher=str(target),
    distillation_weight=0.5,
  )
  agreement = curve(tmp_path / "draft", "validation_accuracy")
  assert agreement[60] > agreement[4]


def test_origins_and_lengths_choose_the_rows(text):
  path = str(text / "text.tsv.gz")
  vocabulary = SentencePieceVocabulary(str(text / "sentencepiece.model"))

  def load(**options):
    return training_text.load(path, vocabulary=vocabulary, **options)

  every = load(max_tokens=1000)
  assert len(every) == 40
  rows = list(parallel_text.read(path, ("man",)))
  assert {row.origin for row in rows} == {"man:pages/ls"}
  assert load(max_tokens=1000, origins=("man",)) == [
    (vocabulary.encode(row.source), vocabulary.encode(row.target))
    for row in rows
  ]
  longest = max(len(side) for pair in every for side in pair)
  shorter = [pair for pair in every if max(map(len, pair)) < longest]
  assert 0 < len(shorter) < len(every)
  assert load(max_tokens=longest - 1) == shorter
  assert load(max_tokens=1000, limit=7) == every[:7]


def test_a_vocabulary_of_both_languages(text, tmp_path):
  path = train_vocabulary.run(
    data=str(text / "text.tsv.gz"), output_dir=str(tmp_path), vocab_size=32
  )
  vocabulary = SentencePieceVocabulary(path)
  assert vocabulary.vocab_size == 32
  for each in TEXTS[:2]:
    assert vocabulary.decode(vocabulary.encode(each)) == each


def test_bad_input_is_named(text, tmp_path):
  with pytest.raises(FileNotFoundError, match=r"at '/no/such\.tsv'.*columns"):
    train(text, tmp_path, data=["/no/such.tsv"])
  with pytest.raises(FileNotFoundError, match=r"/no/such\.jsonl\.gz'; write"):
    train(text, tmp_path, data=["/no/such.jsonl.gz"])
  with pytest.raises(ValueError, match=r"origins \('none',\)"):
    train(text, tmp_path, origins=("none",))
  with pytest.raises(ValueError, match=r"has \d+ ids, the model 7"):
    train(text, tmp_path, model=t5.T5Config(vocab_size=7, **SIZES))
  with pytest.raises(ValueError, match=r"weight 0\.5; give both"):
    train(text, tmp_path, distillation_weight=0.5)
  with pytest.raises(ValueError, match=r"LoopConfig\.log_every is 0"):
    training_loop.LoopConfig(3, log_every=0)
  broken = tmp_path / "broken.tsv"
  broken.write_text("a\tb\tc\na\tb\n")
  with pytest.raises(ValueError, match=r"broken\.tsv:2: 2 columns"):
    train(text, tmp_path, data=[str(broken)])
