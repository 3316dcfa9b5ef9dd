"""Registers the published tasks with T5's vocabulary when it is imported.

For T5X, whose configurations name a module to import:

    MIXTURE_OR_TASK_MODULE = "specdec_jax.tasks.t5_defaults"
    MIXTURE_OR_TASK_NAME = "wmt14_ende"
"""

from specdec_jax.tasks import published

published.register()
