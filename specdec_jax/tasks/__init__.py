"""Tasks for seqio, and what they read and measure.

    from specdec_jax.tasks import corpora, published

    published.register()  # wmt14_ende, cnn_dailymail, lm1b
    corpora.register("sentencepiece.model", held_out=..., train=...)

Both import seqio and TensorFlow (the extra `data`); `parallel_text` and
`metrics` do not. A task is registered by a function, not by an import, since
it needs a vocabulary: who imports a module for one task should not have chosen
the vocabulary, or the network, for all of them. T5X, whose configurations name
a module to import, has `t5_defaults` for that.
"""
