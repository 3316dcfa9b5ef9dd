import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from experiments import generate_text, gin_cli, train, train_vocabulary
from experiments.paths import REPOSITORY
from experiments.training import evaluation as training_evaluation
from experiments.training import loop as training_loop
from experiments.training import text as training_text
from specdec_jax import lm, t5
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from specdec_jax.tasks import parallel_text
from specdec_jax.training import step
from specdec_jax.training.exits import ExitLoss
from tests.experiments import tiny_training
from tests.experiments.tiny_pair import TEXTS
from tests.experiments.tiny_training import (
  curve,
  files,
  lm_config,
  run,
  t5_config,
)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
  return tiny_training.make_text(tmp_path_factory.mktemp("text"))


def test_it_learns_and_leaves_a_model(text, tmp_path):
  path = run(text, tmp_path, steps=60)
  losses = curve(tmp_path)
  assert losses[60] < 0.7 * losses[2]
  validation = curve(tmp_path, "validation_loss")
  assert set(validation) == set(range(4, 61, 4))
  assert validation[60] < 0.7 * validation[4]
  model, params = t5.load(None, path)
  assert model.config.emb_dim == 16
  assert params["token_embedder"]["embedding"].shape[1] == 16


@pytest.mark.parametrize("name", ["adafactor", "adamw"])
def test_it_learns_with_other_optimizers(text, tmp_path, name):
  rate = {"adafactor": 0.03, "adamw": 0.01}[name]
  run(
    text,
    tmp_path,
    steps=60,
    optimizer={"name": name, "learning_rate": rate},
    microbatches=1,
  )
  losses = curve(tmp_path)
  assert losses[60] < 0.8 * losses[2]


def test_a_language_model_learns_all_of_its_texts(text, tmp_path):
  path = run(
    text,
    tmp_path,
    steps=60,
    model=lm_config(text),
    data=files(text, only_source=True),
  )
  losses = curve(tmp_path)
  assert losses[60] < 0.7 * losses[2]
  model, params = lm.load(None, path)
  vocabulary = SentencePieceVocabulary(text / "sentencepiece.model")
  # The validation loss is that of the saved model, over all tokens.
  encoded = [vocabulary.encode(each) for each in TEXTS]
  ids = np.zeros((len(encoded), 64), np.int32)
  for row, each in zip(ids, encoded, strict=True):
    row[: len(each)] = each
  logits = model.decode(params, jnp.pad(ids[:, :-1], ((0, 0), (1, 0))))
  log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits), ids[..., None], 2)
  loss = -float(log_probs[ids > 0].mean())
  found = curve(tmp_path, "validation_loss")[60]
  assert found == pytest.approx(loss, rel=0.02)  # Saved as bfloat16.


def test_microbatches_change_nothing(text, tmp_path):
  model = t5_config(text, dropout_rate=0.0)
  found = []
  for microbatches in (1, 2):
    folder = tmp_path / str(microbatches)
    # Four rows a batch in both.
    run(
      text,
      folder,
      model=model,
      microbatches=microbatches,
      tokens_per_batch=256,
    )
    found.append(list(curve(folder).values()))
  np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


def test_targets_may_be_narrower_and_products_precise(text, tmp_path):
  run(
    text,
    tmp_path,
    steps=6,
    target_widths=(24,),
    matmul_precision="float32",
  )
  assert curve(tmp_path)[6] > 0
  manifest = json.loads((tmp_path / "manifest.json").read_text())
  assert manifest["target_widths"] == [24]
  assert manifest["matmul_precision"] == "float32"
  with pytest.raises(ValueError, match="raise target_widths"):
    run(text, tmp_path / "none", target_widths=(1,))
  with pytest.raises(ValueError, match="matmul_precision is 'fast'"):
    run(text, tmp_path, matmul_precision="fast")


def test_bfloat16_computes_near_float32(text, tmp_path):
  model = t5_config(text, dropout_rate=0.0)
  found = []
  for dtype in ("float32", "bfloat16"):
    run(text, tmp_path / dtype, steps=4, model=model, dtype=dtype)
    found.append(curve(tmp_path / dtype)[2])
  assert found[0] != found[1]
  assert found[0] == pytest.approx(found[1], rel=0.02)


def test_an_exit_is_taught_and_measured(text, tmp_path):
  model = t5_config(text, num_decoder_layers=2, dropout_rate=0.0)
  options = {"steps": 60, "model": model, "loop": {"evaluate_every": 30}}
  path = run(text, tmp_path / "taught", exit_loss=ExitLoss((1,)), **options)
  run(text, tmp_path / "plain", **options)
  name = "validation_exit_1_acceptance"
  found = curve(tmp_path / "taught", name)
  assert found.keys() == {30, 60}
  assert not curve(tmp_path / "plain", name)
  # That of the saved model, in its laws of each word of the text.
  target, params = t5.load(None, path)
  draft, draft_params = t5.self_draft(target, params, (0,))
  rows = files(text).load("validation", max_tokens=64, limit=10)
  inputs, targets = (
    jnp.array([[*side, *[0] * (64 - len(side))] for side in sides])
    for sides in zip(*rows, strict=True)
  )
  encoded = target.encode(params, inputs)
  laws = [
    jax.nn.softmax(
      step.token_logits(model, own, inputs, targets, encoded=encoded)
    )
    for model, own in ((target, params), (draft, draft_params))
  ]
  kept = jnp.sum(jnp.minimum(*laws).sum(-1) * (targets > 0))
  tokens = jnp.sum(targets > 0)
  # The other thirty rows say the same; saved as bfloat16.
  assert found[60] == pytest.approx(float(kept / tokens), abs=0.02)


def test_training_may_start_from_a_checkpoint(text, tmp_path):
  first = run(text, tmp_path / "first", steps=60)
  run(text, tmp_path / "second", initial=str(first))
  reached = curve(tmp_path / "first", "validation_loss")
  # A run from random values is far from that after four steps.
  assert curve(tmp_path / "second", "validation_loss")[4] < reached[20]


def test_training_may_start_from_a_smaller_model(text, tmp_path):
  first = run(text, tmp_path / "first", steps=60)
  larger = t5_config(text, emb_dim=24, num_decoder_layers=2)
  run(text, tmp_path / "larger", initial=str(first), model=larger)
  reached = curve(tmp_path / "first", "validation_loss")
  assert curve(tmp_path / "larger", "validation_loss")[4] < reached[20]
  with pytest.raises(ValueError, match="mlp_dim is 24, less than the 32"):
    run(
      text,
      tmp_path / "smaller",
      initial=str(first),
      model=t5_config(text, mlp_dim=24),
    )


def test_a_greedy_score_is_that_of_the_models_outputs(
  text, tmp_path, monkeypatch
):
  compared = []

  def metric(targets, predictions):
    compared.append((targets, predictions))
    return {"bleu": 12.5}

  # BLEU of single words is 0, whatever they are.
  monkeypatch.setitem(
    training_evaluation._METRICS, "bleu", ("json", metric, str)
  )
  score = training_evaluation.GreedyScore(
    "bleu", examples=7, max_new_tokens=8, tokens_per_batch=128
  )
  path = run(text, tmp_path, steps=60, score=score, loop={"evaluate_every": 30})
  assert curve(tmp_path, "validation_bleu") == {30: 12.5, 60: 12.5}
  model, params = t5.load(None, path)
  vocabulary = SentencePieceVocabulary(text / "sentencepiece.model")
  pairs = files(text).load("validation", max_tokens=64, limit=9)
  score(model, params, pairs, vocabulary, (64,))
  rows = list(parallel_text.read(str(text / "text.tsv.gz")))[:7]
  outputs = []
  for row in rows:
    output = sd.autoregressive_generate(
      jax.random.key(0),
      jnp.pad(jnp.array([vocabulary.encode(row.source)]), ((0, 0), (0, 64)))[
        :, :64
      ],
      model=model,
      params=params,
      config=sd.SpeculativeConfig(
        max_new_tokens=8, sampling=sd.SamplingConfig(temperature=0.0)
      ),
    )
    outputs.append(vocabulary.decode(np.asarray(output.tokens)[0].tolist()))
  assert compared[-1] == ([row.target for row in rows], outputs)
  assert len(set(outputs)) > 1


def test_a_score_that_cannot_be_is_refused(text, tmp_path, monkeypatch):
  with pytest.raises(ValueError, match="metric is 'ter'; there are bleu, rou"):
    training_evaluation.GreedyScore("ter")
  with pytest.raises(ValueError, match="a language model has no sources"):
    run(
      text,
      tmp_path,
      model=lm_config(text),
      score=training_evaluation.GreedyScore("bleu"),
    )
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  with pytest.raises(ModuleNotFoundError, match=r"sacrebleu.*'\.\[data\]'"):
    run(text, tmp_path, score=training_evaluation.GreedyScore("bleu"))


def test_a_draft_learns_from_what_its_target_says(text, tmp_path):
  target = run(text, tmp_path / "target", steps=80)
  generated = generate_text.run(
    model=str(target),
    data=files(text),
    output_dir=str(tmp_path / "generated"),
    sampling=sd.SamplingConfig(temperature=0.0),
    limit=23,
    max_input_length=64,
    max_new_tokens=16,
    batch_size=8,
  )
  run(
    text,
    tmp_path / "draft",
    steps=60,
    data=files(text, train=str(generated), validation=str(generated)),
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


def test_files_of_a_split_are_taken_whole_or_in_turns(text, tmp_path):
  other = tmp_path / "other.tsv"
  other.write_text("a file\tfile\thelp\nhello\tworld\thelp\n")
  both = files(
    text,
    folder=str(text),
    train=("text.tsv.gz", str(other)),
    validation=(str(text / "text.tsv.gz"), str(other)),
  )
  one = files(text).load("train", max_tokens=99)
  two = files(text, train=str(other)).load("train", max_tokens=99)
  assert both.load("train", max_tokens=99) == one + two
  assert both.load("validation", max_tokens=99, limit=5) == [
    one[0],
    two[0],
    one[1],
    two[1],
    one[2],
  ]


def test_bad_input_is_named(text, tmp_path):
  def run_on(**changes):
    run(text, tmp_path / "out", data=files(text, **changes))

  with pytest.raises(FileNotFoundError, match=r"at '/no/such\.tsv'.*columns"):
    run_on(train="/no/such.tsv")
  with pytest.raises(FileNotFoundError, match=r"/no/such\.jsonl\.gz'; write"):
    run_on(train="/no/such.jsonl.gz")
  with pytest.raises(FileNotFoundError, match=r"at /no/such\.model"):
    run_on(vocabulary="/no/such.model")
  with pytest.raises(ValueError, match=r"origins \('none',\)"):
    run_on(origins=("none",))
  with pytest.raises(ValueError, match=r"TextFiles\.train names no file"):
    run_on(train=())
  with pytest.raises(ValueError, match=r"has \d+ ids, the model 7"):
    run(text, tmp_path, model=t5_config(text, vocab_size=7))
  with pytest.raises(ValueError, match="no model named 't5_huge'"):
    run(text, tmp_path, model="t5_huge")
  with pytest.raises(ValueError, match="Example 0 of the train split has no"):
    run_on(only_source=True)
  with pytest.raises(ValueError, match=r"weight 0\.5; give both"):
    run(text, tmp_path, distillation_weight=0.5)
  with pytest.raises(ValueError, match=r"exits is \(1,\), and the model's"):
    run(text, tmp_path, exit_loss=ExitLoss((1,)))
  with pytest.raises(ValueError, match=r"LoopConfig\.log_every is 0"):
    training_loop.LoopConfig(3, log_every=0)
  broken = tmp_path / "broken.tsv"
  for row, message in (
    (b"a\tb\n", "2 columns"),
    (b"\n", "the row is empty"),
    (b"a\t\tc\n", "the column target is empty"),
    (b"a\t\xe4\tc\n", "0xe4, is not UTF-8"),
  ):
    broken.write_bytes(b"a\tb\tc\n" + row)
    with pytest.raises(ValueError, match=rf"broken\.tsv:2: .*{message}"):
      run_on(train=str(broken))
  broken.write_text("\u6587\u4ef6\t\u6587\u4ef6\tc\n" * 2)
  with pytest.raises(ValueError, match=r"broken\.tsv:1: the vocabulary"):
    run_on(train=str(broken))
  # Nothing was begun.
  assert not (tmp_path / "out").exists()


def gin_files():
  folder = REPOSITORY / "gin_configs" / "train"
  names = {path.stem for path in folder.glob("*.gin")}
  # Those of other scripts, and of a task of seqio.
  return sorted(names - {"demo_vocabulary", "t5_finetune"})


@pytest.mark.parametrize("name", gin_files())
def test_a_gin_file_trains_a_tiny_model(text, tmp_path, name):
  path = f"'{text}/text.tsv.gz'"
  kind = "LMConfig" if "_lm_" in name else "T5Config"
  flags = {
    "TextFiles.train": path,
    "TextFiles.validation": path,
    "TextFiles.origins": "()",
    "LoopConfig.steps": 3,
    "OptimizerConfig.warmup_steps": 1,
    "OptimizerConfig.decay_steps": 1,
    "train.widths": "(64,)",
    "train.target_widths": None,
    "train.matmul_precision": None,
    "train.tokens_per_batch": 128,
    f"{kind}.emb_dim": 8,
    f"{kind}.num_heads": 1,
    f"{kind}.head_dim": 8,
    f"{kind}.mlp_dim": 8,
  }
  layers = {
    "LMConfig": ["num_layers"],
    "T5Config": ["num_encoder_layers", "num_decoder_layers"],
  }
  flags |= {f"{kind}.{each}": 1 for each in layers[kind]}
  if name == "ende_exits":
    flags |= {"T5Config.num_decoder_layers": 2, "ExitLoss.exits": "(1,)"}
  source = (REPOSITORY / "gin_configs" / "train" / f"{name}.gin").read_text()
  macros = {"DATA": path, "VALIDATION": path, "INITIAL": "None"}
  flags |= {
    macro: value
    for macro, value in macros.items()
    if "demo_" in source or f"{macro} =" in source
    if macro != "INITIAL" or "INITIAL =" in source
  }
  saved = gin_cli.main(
    train.run,
    name="train",
    configurables=train.CONFIGURABLES,
    argv=[
      f"--gin_file=gin_configs/train/{name}.gin",
      f"--output_dir={tmp_path}",
      *(f"--gin.{key}={value}" for key, value in flags.items()),
    ],
  )
  package = lm if kind == "LMConfig" else t5
  model, _ = package.load(None, saved)
  # The vocabulary is the demo pair's.
  assert model.vocab_size == 4096
  assert model.config.emb_dim == 8
  assert set(curve(tmp_path)) == {3}


def test_the_corpora_are_asked_for(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"experiments\.corpora\.build"):
    gin_cli.main(
      train.run,
      name="train",
      configurables=train.CONFIGURABLES,
      argv=[
        "--gin_file=gin_configs/train/ende_target.gin",
        f"--gin.CORPORA='{tmp_path}'",
        f"--output_dir={tmp_path}/out",
      ],
    )
  assert not (tmp_path / "out").exists()


def test_fields_that_say_nothing_of_the_weights_do_not_stop_a_start(
  text, tmp_path
):
  first = run(text, tmp_path / "first", steps=4)
  model = dataclasses.replace(
    t5_config(text), dropout_rate=0.0, dtype="bfloat16"
  )
  run(text, tmp_path / "second", model=model, initial=str(first), steps=4)
  assert set(curve(tmp_path / "second")) == {2, 4}
