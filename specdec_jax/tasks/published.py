"""The tasks of the paper, by their names in TensorFlow Datasets."""

import seqio

from specdec_jax.tasks import metrics, registry

WMT14_ENDE = "wmt14_ende"
CNN_DAILYMAIL = "cnn_dailymail"
LM1B = "lm1b"
# The only version that TensorFlow Datasets can still prepare. Its text is that
# of 3.0.0, without the space before the full stops of highlights.
_CNN_DAILYMAIL_VERSION = "3.4.0"
_SPLITS = ("train", "validation", "test")
# LM1B has no validation split; its test split stays whole, as others report it.
_LM1B_SPLITS = {
  "train": "train[:99%]",
  "validation": "train[99%:]",
  "test": "test",
}


def register(
  vocabulary: str | seqio.Vocabulary = registry.T5_VOCABULARY,
  *,
  data_dir: str | None = None,
) -> tuple[str, ...]:
  """Registers WMT14 English to German, CNN/DailyMail and LM1B.

  Inputs and metrics are those of T5. Nothing is downloaded before a dataset is
  asked for.

  Args:
    vocabulary: A SentencePiece model, or a vocabulary.
    data_dir: Where TensorFlow Datasets keeps its files; None for its default.

  Returns:
    The tasks' names. Tasks that have these names already are replaced.
  """
  vocabulary = registry.load_vocabulary(vocabulary)
  registry.add_text_to_text(
    WMT14_ENDE,
    seqio.TfdsDataSource(
      "wmt14_translate/de-en:1.0.0", data_dir, splits=_SPLITS
    ),
    vocabulary,
    prefix="translate English to German: ",
    text="en",
    answer="de",
    metrics=(metrics.bleu,),
  )
  registry.add_text_to_text(
    CNN_DAILYMAIL,
    seqio.TfdsDataSource(
      f"cnn_dailymail:{_CNN_DAILYMAIL_VERSION}", data_dir, splits=_SPLITS
    ),
    vocabulary,
    prefix="summarize: ",
    text="article",
    answer="highlights",
    metrics=(metrics.rouge,),
  )
  registry.add_language_model(
    LM1B,
    seqio.TfdsDataSource("lm1b:1.1.0", data_dir, splits=_LM1B_SPLITS),
    vocabulary,
    text="text",
  )
  return WMT14_ENDE, CNN_DAILYMAIL, LM1B
