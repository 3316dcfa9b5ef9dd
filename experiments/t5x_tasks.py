"""Registers the offline tasks, with the shipped vocabulary, when imported.

For T5X, whose configurations name a module to import; see
gin_configs/t5x/ende.gin. Beside BLEU, an evaluation logs what speculation
counted.
"""

import seqio

from experiments.paths import resolve
from specdec_jax.tasks import corpora, metrics

corpora.register(
  resolve("experiments/assets/ende_demo/sentencepiece.model"),
  held_out=resolve("experiments/assets/corpora"),
)

for name in (
  "ende_sentence",
  "ende_paragraph",
  "ende_long",
  corpora.ENDE_HELD_OUT,
):
  task = seqio.TaskRegistry.get(name)
  seqio.TaskRegistry.remove(name)
  seqio.TaskRegistry.add_provider(
    name, task.replace(metric_fns=[metrics.with_counters(metrics.bleu)])
  )
