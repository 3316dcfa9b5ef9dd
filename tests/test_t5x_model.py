"""The T5X model against T5X's own: same weights, same batch, same tokens."""

import dataclasses
import importlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import types

import pytest

if importlib.util.find_spec("t5x") is None:
  pytest.skip(
    "t5x is not installed; it is in no package index: pip install '.[t5x]'",
    allow_module_level=True,
  )

import gin
import jax
import jax.numpy as jnp
import numpy as np
import seqio
import t5x
import tensorflow as tf
from flax import linen as nn
from t5x import (
  adafactor,
  decoding,
  eval,
  gin_utils,
  infer,
  models,
  partitioning,
  utils,
)
from t5x.examples.scalable_t5 import network as scalable_network
from t5x.examples.t5 import network

import specdec_jax as sd
from experiments import t5x_checkpoint
from experiments.paths import REPOSITORY
from specdec_jax import t5
from specdec_jax.t5x_model import SpeculativeEncoderDecoderModel, target_config
from specdec_jax.tasks import registry

BATCH, SOURCE, TARGET = 3, 9, 12
SHAPE = {
  "vocab_size": 48,
  "emb_dim": 16,
  "num_heads": 2,
  "num_encoder_layers": 2,
  "num_decoder_layers": 3,
  "head_dim": 4,
  "mlp_dim": 32,
  "dropout_rate": 0.0,
}
V1_0 = {"mlp_activations": ("relu",), "logits_via_embedding": True}
V1_1 = {"mlp_activations": ("gelu", "linear"), "logits_via_embedding": False}
NETWORKS = {
  "t5_1_0": lambda: network.Transformer(network.T5Config(**SHAPE, **V1_0)),
  "t5_1_1": lambda: network.Transformer(network.T5Config(**SHAPE, **V1_1)),
  "scalable": lambda: scalable_network.Transformer(
    scalable_network.T5Config(**SHAPE, **V1_1, scan_layers=False)
  ),
  "scanned": lambda: scalable_network.Transformer(
    scalable_network.T5Config(**SHAPE, **V1_1, scan_layers=True)
  ),
}
VOCABULARY = seqio.PassThroughVocabulary(48, eos_id=1)


def arguments(module):
  return {
    "module": module,
    "input_vocabulary": VOCABULARY,
    "output_vocabulary": VOCABULARY,
    "optimizer_def": adafactor.Adafactor(1e-3),
  }


@pytest.fixture(scope="session")
def draft_path(tmp_path_factory):
  config = t5.T5Config(**(SHAPE | V1_1 | {"num_decoder_layers": 1}))
  model = t5.T5Model(config)
  path = tmp_path_factory.mktemp("draft") / "checkpoint"
  t5.save(path, model, model.init(jax.random.key(7)))
  return str(path)


@pytest.fixture(scope="session", params=NETWORKS)
def pair(request, draft_path):
  """T5X's model, ours, the parameters of both, and a batch."""
  module = NETWORKS[request.param]()
  theirs = models.EncoderDecoderModel(
    **arguments(module), decode_fn=decoding.temperature_sample
  )
  ours = SpeculativeEncoderDecoderModel(
    **arguments(module), draft_path=draft_path, gamma=3
  )
  return theirs, ours, random_params(theirs), batch()


def random_params(model):
  """Initial values, but for scales and biases, which would hide mistakes."""
  variables = model.get_initial_variables(
    jax.random.PRNGKey(0),
    {
      "encoder_input_tokens": (BATCH, SOURCE),
      "decoder_input_tokens": (BATCH, TARGET),
    },
    {
      "encoder_input_tokens": jnp.int32,
      "decoder_input_tokens": jnp.int32,
    },
  )
  leaves, tree = jax.tree.flatten(variables["params"])
  rng = np.random.default_rng(3)
  return jax.tree.unflatten(
    tree,
    [x * rng.uniform(0.5, 2.0, x.shape).astype(np.float32) for x in leaves],
  )


def batch():
  rng = np.random.default_rng(5)
  tokens = rng.integers(2, 48, (BATCH, SOURCE)).astype(np.int32)
  tokens[1, 5:] = 0
  return {
    "encoder_input_tokens": tokens,
    "decoder_input_tokens": np.zeros((BATCH, TARGET), np.int32),
    "decoder_target_tokens": np.zeros((BATCH, TARGET), np.int32),
    "decoder_loss_weights": np.zeros((BATCH, TARGET), np.int32),
  }


def predict(model, params, batch, **options):
  """As T5X predicts: in a program whose arguments are these alone."""
  return jax.jit(
    lambda params, batch: model.predict_batch_with_aux(params, batch, **options)
  )(params, batch)


def test_greedy_decodes_are_t5xs(pair):
  theirs, ours, params, batch = pair
  expected, expected_aux = predict(
    theirs, params, batch, decoder_params={"rescale_log_probs": False}
  )
  decodes, aux = predict(ours, params, batch)
  np.testing.assert_array_equal(decodes, expected)
  assert len(np.unique(decodes)) > 2
  np.testing.assert_allclose(
    aux["scores"], expected_aux["scores"], rtol=1e-4, atol=1e-4
  )


def test_rows_end_where_t5xs_do(pair):
  theirs, ours, params, batch = pair
  decodes, _ = predict(ours, params, batch)
  options = {"decoder_params": {"eos_id": int(decodes[1, 2])}}
  expected, _ = predict(theirs, params, batch, **options)
  decodes, aux = predict(ours, params, batch, **options)
  np.testing.assert_array_equal(decodes, expected)
  assert aux["emitted"][1] <= 3


def test_counters_add_up(pair):
  _, ours, params, batch = pair
  decodes, aux = predict(ours, params, batch)
  np.testing.assert_array_equal(
    aux["emitted"], np.full(BATCH, TARGET), "no row met EOS"
  )
  assert set(aux) == {
    "scores",
    *(field.name for field in dataclasses.fields(sd.SpeculationStats)),
  }
  assert all(len(values) == BATCH for values in aux.values())
  np.testing.assert_array_equal(
    aux["emitted"], aux["accepted"] + aux["corrected"] + aux["bonus"]
  )
  np.testing.assert_array_equal(
    aux["accepted_histogram"].sum(-1), aux["target_calls"]
  )
  assert aux["accepted_histogram"].shape == (BATCH, ours.gamma + 1)
  assert decodes.dtype == jnp.int32


@pytest.fixture
def tiny(draft_path):
  """The T5 1.1 alone."""
  module = NETWORKS["t5_1_1"]()
  model = SpeculativeEncoderDecoderModel(
    **arguments(module), draft_path=draft_path, gamma=3
  )
  return model, random_params(model), batch()


def test_samples_follow_the_key(tiny, draft_path):
  model, params, batch = tiny
  sampling = {"temperature": 1.0, "topk": 0}

  def sample(**options):
    return np.asarray(
      model.predict_batch_with_aux(
        params,
        batch,
        decoder_params={**sampling, **options.pop("more", {})},
        **options,
      )[0]
    )

  seed_0 = sample()
  np.testing.assert_array_equal(seed_0, sample(rng=jax.random.PRNGKey(0)))
  np.testing.assert_array_equal(seed_0, sample(rng=jax.random.key(0)))
  seed_1 = sample(rng=jax.random.PRNGKey(1))
  assert (seed_0 != seed_1).any()
  np.testing.assert_array_equal(
    seed_1, sample(more={"decode_rng": jax.random.PRNGKey(1)})
  )
  bound = SpeculativeEncoderDecoderModel(
    **arguments(model.module),
    draft_path=draft_path,
    gamma=3,
    sampling=sd.SamplingConfig(temperature=1.0),
  )
  np.testing.assert_array_equal(seed_0, bound.predict_batch(params, batch))


def test_fewer_steps_than_the_features_are_wide(tiny):
  model, params, batch = tiny
  whole = model.predict_batch(params, batch)
  decodes, aux = model.predict_batch_with_aux(
    params, batch, decoder_params={"max_decode_steps": 4}
  )
  np.testing.assert_array_equal(decodes[:, :4], whole[:, :4])
  assert decodes.shape == whole.shape
  assert not decodes[:, 4:].any()
  assert aux["emitted"].max() == 4


def test_bfloat16_as_t5x_restores_it(tiny, draft_path):
  _, params, batch = tiny
  model = SpeculativeEncoderDecoderModel(
    **arguments(
      network.Transformer(network.T5Config(**SHAPE, **V1_1, dtype="bfloat16"))
    ),
    draft_path=draft_path,
  )
  assert model.draft.config.dtype == "bfloat16"
  params = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), params)
  decodes, aux = predict(model, params, batch)
  assert decodes.shape == (BATCH, TARGET)
  # T5X's score of a decode, given as targets, is what decoding said of it.
  shifted = np.pad(decodes, ((0, 0), (1, 0)))[:, :-1]
  scores = model.score_batch(
    params,
    {
      "encoder_input_tokens": batch["encoder_input_tokens"],
      "decoder_input_tokens": shifted,
      "decoder_target_tokens": decodes,
      "decoder_loss_weights": np.arange(TARGET) < aux["emitted"][:, None],
    },
  )
  # But for rows with a 0 among their tokens, which T5X masks as padding.
  whole = (decodes != 0).all(axis=1)
  assert whole.sum() > 1
  np.testing.assert_allclose(aux["scores"][whole], scores[whole], rtol=0.05)


def test_the_draft_is_no_constant_of_the_program(tiny):
  model, params, batch = tiny
  program = jax.jit(model.predict_batch).lower(params, batch)
  signature = program.as_text().partition("@main(")[2].partition("->")[0]
  # Of the batch, only the encoder's tokens are read.
  arrays = 1 + len(jax.tree.leaves((params, model.draft_params)))
  assert signature.count("%arg") == arrays


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"num_decodes": 4}, "num_decodes is 4"),
    ({"return_all_decodes": True}, "return_all_decodes is True"),
    ({"prompt_with_targets": True}, "temperature_sample"),
    ({"decoder_params": {"alpha": 0.6}}, "has alpha"),
    ({"decoder_params": {"topp": 2.0}}, "top_p is 2.0"),
    (
      {
        "rng": jax.random.PRNGKey(0),
        "decoder_params": {"decode_rng": jax.random.PRNGKey(0)},
      },
      "give one of them",
    ),
  ],
)
def test_requests_that_are_refused(tiny, options, message):
  model, params, batch = tiny
  with pytest.raises(ValueError, match=message):
    model.predict_batch_with_aux(params, batch, **options)


def test_defaults_of_t5x_are_refused_too(tiny, draft_path):
  model, params, batch = tiny
  beams = SpeculativeEncoderDecoderModel(
    **arguments(model.module),
    draft_path=draft_path,
    default_decoder_params=models.DecoderParams(num_decodes=4),
  )
  with pytest.raises(ValueError, match="num_decodes is 4"):
    beams.predict_batch(params, batch)


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"decode_fn": decoding.beam_search}, "keeps no beams"),
    ({"gamma": -1}, "gamma is -1"),
    ({"lenience": 2.0}, "lenience is 2.0"),
    ({"draft_config": "t5_1_1_small"}, "does not hold 't5_1_1_small'"),
  ],
)
def test_models_that_are_refused(draft_path, options, message):
  given = {**arguments(NETWORKS["t5_1_1"]()), "draft_path": draft_path}
  with pytest.raises(ValueError, match=message):
    SpeculativeEncoderDecoderModel(**(given | options))


def test_a_network_of_another_kind_is_refused():
  with pytest.raises(ValueError, match="whose config has no vocab_size"):
    target_config(nn.Dense(3))
  config = scalable_network.T5Config(**SHAPE, **V1_1, param_scan_axis=0)
  with pytest.raises(ValueError, match="param_scan_axis is 0"):
    target_config(scalable_network.Transformer(config))


def test_a_draft_of_another_vocabulary_is_refused(draft_path):
  config = network.T5Config(**(SHAPE | V1_1 | {"vocab_size": 64}))
  with pytest.raises(ValueError, match="48 entries and the target's .* 64"):
    SpeculativeEncoderDecoderModel(
      **arguments(network.Transformer(config)), draft_path=draft_path
    )


def test_another_networks_parameters_are_refused(tiny):
  model, params, batch = tiny
  params = {
    **params,
    "decoder": {"decoder_norm": params["decoder"]["decoder_norm"]},
  }
  with pytest.raises(ValueError, match="T5X's train state does not fit"):
    model.predict_batch(params, batch)


def decode_on_a_mesh(draft_path):
  """Prints what both models decode where T5X splits the target in two."""
  module = NETWORKS["t5_1_1"]()
  ours = SpeculativeEncoderDecoderModel(
    **arguments(module), draft_path=draft_path, gamma=3
  )
  theirs = models.EncoderDecoderModel(
    **arguments(module), decode_fn=decoding.temperature_sample
  )
  partitioner = partitioning.PjitPartitioner(
    num_partitions=2,
    logical_axis_rules=partitioning.standard_logical_axis_rules(),
  )
  features = ("encoder_input_tokens", "decoder_input_tokens")
  rows = {name: np.concatenate([batch()[name]] * 2) for name in features}
  initializer = utils.TrainStateInitializer(
    None,
    ours.get_initial_variables,
    {name: values.shape for name, values in rows.items()},
    partitioner,
    dict.fromkeys(features, jnp.int32),
  )
  state = initializer.from_scratch(jax.random.PRNGKey(0))
  kernel = state.params["decoder"]["layers_0"]["mlp"]["wo"]["kernel"]
  decodes = [
    utils.get_infer_fn(
      model.predict_batch, len(rows), initializer.train_state_axes, partitioner
    )(
      tf.data.Dataset.from_tensor_slices(rows).enumerate(),
      state,
      jax.random.PRNGKey(0),
    )
    for model in (ours, theirs)
  ]
  print(json.dumps([kernel.sharding.is_fully_replicated, *decodes]))


def test_a_target_on_two_devices(draft_path):
  run = subprocess.run(
    [
      sys.executable,
      "-c",
      "from tests import conftest, test_t5x_model\n"
      f"test_t5x_model.decode_on_a_mesh({draft_path!r})",
    ],
    cwd=REPOSITORY,
    env=os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    capture_output=True,
    text=True,
    check=False,
  )
  assert not run.returncode, run.stderr
  is_replicated, decodes, expected = json.loads(run.stdout.splitlines()[-1])
  assert not is_replicated
  assert decodes == expected
  assert len(decodes) == 2 * BATCH


@pytest.fixture
def gin_run(monkeypatch):
  """Parses gin files as T5X's scripts do, which are a run's __main__."""

  def parse(script, *files, **macros):
    main = types.ModuleType("__main__")
    for name in ("infer", "evaluate"):
      if hasattr(script, name):
        setattr(main, name, getattr(script, name))
    monkeypatch.setitem(sys.modules, "__main__", main)
    bindings = [f"{name} = {value!r}" for name, value in macros.items()]
    with gin.unlock_config():
      gin_utils.parse_gin_flags(
        [str(pathlib.Path(t5x.__file__).parent.parent), str(REPOSITORY)],
        files,
        bindings,
      )

  gin.clear_config()
  yield parse
  gin.clear_config()


@pytest.mark.parametrize("task", ["wmt14_ende", "cnn_dailymail"])
@pytest.mark.parametrize("size", ["small", "base", "large"])
def test_gin_files_make_the_published_pairs(gin_run, monkeypatch, task, size):
  asked = []

  def load(name, path, *, dtype):
    asked.append((path, dtype))
    return t5.T5Model(t5.get_config(name)), None

  monkeypatch.setattr(t5, "load", load)
  gin_run(
    infer,
    "t5x/examples/t5/t5_1_1/xxl.gin",
    "t5x/configs/runs/infer.gin",
    "gin_configs/t5x/speculative.gin",
    f"gin_configs/t5x/{task}.gin",
    DRAFT=f"t5_1_1_{size}",
    DRAFT_PATH="draft",
    CHECKPOINT_PATH="target",
    INFER_OUTPUT_DIR="out",
  )
  model = gin.query_parameter("%MODEL").scoped_configurable_fn()
  assert asked == [("draft", "bfloat16")]
  assert model.target.config == dataclasses.replace(
    t5.get_config("t5_1_1_xxl"), dropout_rate=0.0, dtype="bfloat16"
  )
  assert model.draft.config == t5.get_config(f"t5_1_1_{size}")
  assert model.gamma == 7
  assert model.sampling.greedy
  importlib.import_module(gin.query_parameter("%MIXTURE_OR_TASK_MODULE"))
  assert gin.query_parameter("%MIXTURE_OR_TASK_NAME") == task
  features = seqio.get_mixture_or_task(task).output_features
  lengths = gin.query_parameter("%TASK_FEATURE_LENGTHS")
  assert lengths.keys() == features.keys()
  assert features["inputs"].vocabulary == model.input_vocabulary


def test_t5x_evaluates_the_shipped_pair(gin_run, tmp_path, monkeypatch):
  monkeypatch.chdir(REPOSITORY)
  checkpoint = t5x_checkpoint.run(
    checkpoint="experiments/assets/ende/target", output_dir=str(tmp_path)
  )
  count = 4
  gin_run(
    eval,
    "t5x/examples/t5/t5_1_1/base.gin",
    "t5x/configs/runs/eval.gin",
    "gin_configs/t5x/speculative.gin",
    "gin_configs/t5x/ende.gin",
    CHECKPOINT_PATH=str(checkpoint),
    EVAL_OUTPUT_DIR=str(tmp_path / "eval"),
    **{
      "seqio.Evaluator.num_examples": count,
      "utils.DatasetConfig.batch_size": count,
    },
  )
  gin.get_configurable("evaluate")()
  (metrics,) = tmp_path.rglob("ende_sentence-metrics.jsonl")
  scores = json.loads(metrics.read_text())
  assert {"bleu", "acceptance_rate", "block_efficiency"} <= scores.keys()
  assert 0 < scores["acceptance_rate"] <= 1
  assert 1 <= scores["block_efficiency"] <= 1 + gin.query_parameter("%GAMMA")
  (results,) = tmp_path.rglob("ende_sentence-0*.jsonl")
  lines = [json.loads(line) for line in results.read_text().splitlines()]
  assert len(lines) == count

  model = gin.query_parameter("%MODEL").scoped_configurable_fn()
  width = gin.query_parameter("%TASK_FEATURE_LENGTHS")["targets"]
  inputs = [line["input"]["inputs"] for line in lines]
  longest = max(map(len, inputs))
  expected = predict(
    models.EncoderDecoderModel(
      model.module,
      model.input_vocabulary,
      model.output_vocabulary,
      model.optimizer_def,
      decode_fn=decoding.temperature_sample,
    ),
    t5.load(None, "experiments/assets/ende/target")[1],
    {
      "encoder_input_tokens": np.array(
        [each + [0] * (longest - len(each)) for each in inputs]
      ),
      "decoder_input_tokens": np.zeros((count, width), np.int32),
    },
  )[0]
  assert [line["prediction"] for line in lines] == [
    model.output_vocabulary.decode(row) for row in expected.tolist()
  ]


def test_t5x_infers_with_counters(gin_run, tmp_path, monkeypatch):
  monkeypatch.chdir(REPOSITORY)
  checkpoint = t5x_checkpoint.run(
    checkpoint="experiments/assets/ende/target",
    output_dir=str(tmp_path),
    step=3,
  )
  lines = ["Show this help.", "Print the version.", "The file is empty."]
  seqio.TaskRegistry.remove("three_lines")
  registry.add_text_to_text(
    "three_lines",
    seqio.FunctionDataSource(
      lambda split, shuffle_files, seed=None: (
        tf.data.Dataset.from_tensor_slices({"source": lines, "target": lines})
      ),
      splits=("test",),
    ),
    registry.load_vocabulary(
      "experiments/assets/ende_demo/sentencepiece.model"
    ),
    text="source",
    answer="target",
  )
  gin_run(
    infer,
    "t5x/examples/t5/t5_1_1/base.gin",
    "t5x/configs/runs/infer.gin",
    "gin_configs/t5x/speculative.gin",
    "gin_configs/t5x/ende.gin",
    CHECKPOINT_PATH=str(checkpoint),
    INFER_OUTPUT_DIR=str(tmp_path / "infer"),
    MIXTURE_OR_TASK_NAME="three_lines",
    TASK_FEATURE_LENGTHS={"inputs": 16, "targets": 16},
    **{
      "infer.mode": "predict_with_aux",
      "utils.DatasetConfig.batch_size": 2,
    },
  )
  gin.get_configurable("infer")()
  (results,) = (tmp_path / "infer").glob("three_lines-*.jsonl-00000-of-00001")
  rows = [json.loads(line) for line in results.read_text().splitlines()]
  assert [row["inputs"]["inputs_pretokenized"] for row in rows] == lines
  for row in rows:
    aux = row["aux"]
    assert aux["emitted"] == aux["accepted"] + aux["corrected"] + aux["bonus"]
    assert 1 <= aux["target_calls"] <= aux["emitted"] <= 16
    assert len(aux["accepted_histogram"]) == 6
    assert aux["scores"] < 0
