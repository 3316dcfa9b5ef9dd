"""Speculative decoding as a T5X model, for T5X's own `infer` and `eval`.

    MODEL = @t5x_model.SpeculativeEncoderDecoderModel()

The target is what T5X restored: `predict_batch_with_aux` gets its parameters
from T5X's train state. The draft is a checkpoint of its own. Training, losses
and scores are T5X's, untouched; only prediction is replaced.

T5X is in no package index, and has no releases. This works with its commit
cc342d4, unchanged, on jax 0.10.2; experiments/README.md has the other versions.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import seqio
from flax import linen as nn
from flax import traverse_util
from jax.interpreters import pxla
from t5x import losses, models, optimizers

from specdec_jax import partitioning, t5
from specdec_jax.array_typing import Array, Params
from specdec_jax.config import SamplingConfig, SpeculativeConfig
from specdec_jax.drafters import model_drafter
from specdec_jax.speculative import speculative_generate
from specdec_jax.t5.checkpoints.assemble import check, shapes_of
from specdec_jax.t5.checkpoints.t5x_layout import convert

GREEDY = SamplingConfig(temperature=0.0)

# T5X's names of decoder parameters, and ours.
_SAMPLING = {"temperature": "temperature", "topk": "top_k", "topp": "top_p"}
_DECODER_PARAMS = (*_SAMPLING, "decode_rng", "eos_id", "max_decode_steps")

NOT_IN_T5X = (
  "relative_bias_per_layer",
  "relative_attention_num_buckets",
  "relative_attention_max_distance",
)
"""Fields of our `T5Config` that T5X's networks fix, and their configs lack."""


class SpeculativeEncoderDecoderModel(models.EncoderDecoderModel):
  """T5X's `EncoderDecoderModel`, with speculative prediction.

  Attributes:
    target: The target, as the decoder calls it.
    draft: The draft model.
    draft_params: Its parameters.
    gamma: Draft tokens per round.
    sampling: How logits become probabilities.
    lenience: See `SpeculativeConfig.lenience`.
  """

  def __init__(
    self,
    module: nn.Module,
    input_vocabulary: seqio.Vocabulary,
    output_vocabulary: seqio.Vocabulary,
    optimizer_def: optimizers.OptimizerDefType,
    draft_path: str,
    draft_config: str | t5.T5Config | None = None,
    gamma: int = 5,
    sampling: SamplingConfig = GREEDY,
    lenience: float = 1.0,
    decode_fn: Callable[..., Any] | None = None,
    feature_converter_cls: Callable[..., seqio.FeatureConverter] | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    loss_normalizing_factor: (
      float | int | str | losses.SpecialLossNormalizingFactor | None
    ) = None,
    default_decoder_params: models.DecoderParams | None = None,
  ):
    """Reads the draft, so that a wrong path fails before the target is read.

    Args:
      module: The target's network: T5X's minimal or scalable T5.
      input_vocabulary: As in T5X.
      output_vocabulary: As in T5X.
      optimizer_def: As in T5X.
      draft_path: The draft's checkpoint, in any format that `t5.load` reads.
      draft_config: A published size ("t5_1_1_small") or a `T5Config`; None
        where the checkpoint tells its shape, which T5X's does not. The draft
        computes in the target's dtype.
      gamma: Draft tokens per round; 0 is plain decoding.
      sampling: How logits become probabilities; greedy by default, as T5X's
        `temperature_sample` is.
      lenience: See `SpeculativeConfig.lenience`.
      decode_fn: Refused: decoding is this class's own.
      feature_converter_cls: As in T5X.
      label_smoothing: As in T5X.
      z_loss: As in T5X.
      loss_normalizing_factor: As in T5X.
      default_decoder_params: As in T5X.

    Raises:
      FileNotFoundError: If the draft's folder does not exist.
      ValueError: If a value is out of range, the network is not T5's, the
        vocabularies differ in size, or the draft's checkpoint does not fit.
    """
    if decode_fn is not None:
      raise ValueError(
        f"decode_fn is {decode_fn!r}, but speculative decoding is a decode"
        " function of its own, and keeps no beams. Leave decode_fn unbound and"
        " set `sampling`; for beam search, use"
        " t5x.models.EncoderDecoderModel."
      )
    super().__init__(
      module=module,
      input_vocabulary=input_vocabulary,
      output_vocabulary=output_vocabulary,
      optimizer_def=optimizer_def,
      feature_converter_cls=feature_converter_cls,
      label_smoothing=label_smoothing,
      z_loss=z_loss,
      loss_normalizing_factor=loss_normalizing_factor,
      default_decoder_params=default_decoder_params,
    )
    # Checks them, before anything is read.
    SpeculativeConfig(gamma=gamma, sampling=sampling, lenience=lenience)
    self.gamma = gamma
    self.sampling = sampling
    self.lenience = lenience
    self.target = t5.T5Model(target_config(module))
    self.draft, self.draft_params = t5.load(
      draft_config, draft_path, dtype=self.target.config.dtype
    )
    if self.draft.vocab_size != self.target.vocab_size:
      raise ValueError(
        f"The draft at {draft_path} has a vocabulary of"
        f" {self.draft.vocab_size} entries and the target's network one of"
        f" {self.target.vocab_size}. Speculation needs one tokenizer for both:"
        " give a draft that was trained with the target's."
      )

  def predict_batch_with_aux(
    self,
    params: Params,
    batch: Mapping[str, Any],
    rng: Array | None = None,
    decoder_params: Mapping[str, Any] | None = None,
    return_all_decodes: bool | None = None,
    num_decodes: int | None = None,
    prompt_with_targets: bool = False,
  ) -> tuple[Array, dict[str, Array]]:
    """Decodes a batch; see T5X's method of this name.

    Args:
      params: The target's parameters, in T5X's layout.
      batch: `encoder_input_tokens`, int32[B, S], and `decoder_input_tokens`,
        of which only the width counts: that many tokens are decoded at most.
      rng: A key, raw or typed; None is that of seed 0.
      decoder_params: For this call, by T5X's names: `temperature`, `topk` and
        `topp` replace those of `sampling`; `decode_rng`, `eos_id`, and
        `max_decode_steps`, the most tokens to emit.
      return_all_decodes: Refused if True; None takes `default_decoder_params`.
      num_decodes: Refused if above 1; None takes `default_decoder_params`.
      prompt_with_targets: Refused if True.

    Returns:
      decodes: int32[B, L], 0 after EOS.
      aux: Arrays that lead with B. `scores`, float32[B], the target's own log
        probability (T5X's, with `rescale_log_probs=False`); and the counters
        of `SpeculationStats` by their names, `target_calls`, `drafted`,
        `examined`, `accepted`, `corrected`, `bonus`, `emitted`,
        `accepted_histogram` and `scored_histogram`.

    Raises:
      ValueError: If what is asked for is refused, or the parameters are not
        the network's.
    """
    defaults = self._default_decoder_params
    if return_all_decodes is None:
      return_all_decodes = defaults.return_all_decodes
    if num_decodes is None:
      num_decodes = defaults.num_decodes
    _check_request(return_all_decodes, num_decodes, prompt_with_targets)

    decoder_params = dict(decoder_params or {})
    unknown = sorted(decoder_params.keys() - set(_DECODER_PARAMS))
    if unknown:
      raise ValueError(
        f"decoder_params has {', '.join(unknown)}; speculative decoding knows"
        f" {', '.join(_DECODER_PARAMS)}. Drop the others; those of beam search"
        " need t5x.models.EncoderDecoderModel."
      )
    width = batch["decoder_input_tokens"].shape[1]
    steps = decoder_params.get("max_decode_steps")
    config = SpeculativeConfig(
      gamma=self.gamma,
      max_new_tokens=width if steps is None else min(width, steps),
      sampling=dataclasses.replace(
        self.sampling,
        **{
          ours: decoder_params[name]
          for name, ours in _SAMPLING.items()
          if name in decoder_params
        },
      ),
      eos_id=decoder_params.get("eos_id", self.output_vocabulary.eos_id or 1),
      lenience=self.lenience,
    )
    output = speculative_generate(
      _key(rng, decoder_params.get("decode_rng")),
      batch["encoder_input_tokens"],
      target=self.target,
      target_params=_target_params(self.target, params),
      drafter=model_drafter(self.draft),
      draft_params=_as_argument(self.draft_params),
      config=config,
    )
    # T5X's decodes are as wide as its features, whatever the budget.
    decodes = jnp.pad(output.tokens, ((0, 0), (0, width - config.width)))
    counters = {
      field.name: getattr(output.stats, field.name)
      for field in dataclasses.fields(output.stats)
    }
    return decodes, {"scores": output.log_probs, **counters}


def target_config(module: nn.Module) -> t5.T5Config:
  """Returns our config of a T5X network.

  Args:
    module: T5X's minimal or scalable `Transformer`.

  Raises:
    ValueError: If the network has no config such as theirs.
  """
  given: Any = getattr(module, "config", None)
  names = [
    field.name
    for field in dataclasses.fields(t5.T5Config)
    if field.name not in NOT_IN_T5X
  ]
  missing = [name for name in names if not hasattr(given, name)]
  if missing:
    raise ValueError(
      f"module is {type(module).__module__}.{type(module).__name__}, whose"
      f" config has no {', '.join(missing)}. Give the Transformer of"
      " t5x.examples.t5.network or of t5x.examples.scalable_t5.network."
    )
  # Scalable T5 has a table of relative biases in each layer.
  is_scalable = hasattr(given, "scan_layers")
  if is_scalable and given.scan_layers and given.param_scan_axis != 1:
    raise ValueError(
      f"param_scan_axis is {given.param_scan_axis}; only 1, T5X's default, is"
      " read. Set T5Config.param_scan_axis = 1."
    )
  return t5.T5Config(
    relative_bias_per_layer=is_scalable,
    **{name: getattr(given, name) for name in names},
  )


def _check_request(return_all_decodes, num_decodes, prompt_with_targets):
  if num_decodes != 1 or return_all_decodes:
    raise ValueError(
      f"num_decodes is {num_decodes} and return_all_decodes is"
      f" {return_all_decodes}; speculative decoding returns one decode of each"
      " input, and keeps no beams. Set num_decodes to 1 and return_all_decodes"
      " to False, or use t5x.models.EncoderDecoderModel."
    )
  if prompt_with_targets:
    raise ValueError(
      "prompt_with_targets is True; speculative decoding starts from the start"
      " token alone. Set it to False, or use t5x.models.EncoderDecoderModel"
      " with t5x.decoding.temperature_sample."
    )


def _key(rng: Array | None, decode_rng: Array | None) -> Array:
  """Returns a typed key of T5X's, which may be raw."""
  if rng is not None and decode_rng is not None:
    raise ValueError(
      "There is a key in `rng` and one in decoder_params['decode_rng']; give"
      " one of them."
    )
  key = decode_rng if rng is None else rng
  if key is None:
    return jax.random.key(0)
  if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
    return key
  return jax.random.wrap_key_data(key)


def _target_params(target: t5.T5Model, params: Params) -> Params:
  """Returns the network's parameters in our layout, all names checked."""
  flat: Any = traverse_util.flatten_dict(params, sep="/")
  ours = {
    name: array
    for given, stored in flat.items()
    for name, array in convert(target.config, given, stored)
  }
  params = traverse_util.unflatten_dict(ours, sep="/")
  check(
    target,
    shapes_of(params),
    where="T5X's train state",
    fix="Give the checkpoint of the network that `module` describes.",
  )
  return params


def _as_argument(params: Params) -> Params:
  """Makes the draft an argument of the program that T5X compiles.

  T5X's program takes the target's parameters alone. An array that it closes
  over would become a constant in its text: a draft of 250M parameters takes
  minutes to compile then, and several times its size in memory. A reference
  is passed as an argument instead. It must lie where the others do, on T5X's
  mesh; each device has a copy.
  """
  # T5X enters its mesh in the old way, which only this tells of.
  mesh = pxla.thread_resources.env.physical_mesh
  with jax.ensure_compile_time_eval():
    if not mesh.empty:
      params = jax.device_put(params, partitioning.replicated(mesh))
    references = jax.tree.map(jax.new_ref, params)
  return jax.tree.map(lambda reference: reference[...], references)
