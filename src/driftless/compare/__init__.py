"""Several algorithms, several seeds, several settings: a folder of runs that is started, killed and resumed as a whole.

`variants` reads who is compared, `sweep` the cells, `plan` makes the runs of both, `folder` keeps and plays them.
"""

from driftless.compare.folder import (
    COMPARISON,
    comparison_above,
    execute,
    is_comparison,
    prepare_folder,
    read_comparison,
    read_options,
    resume,
)
from driftless.compare.plan import Comparison, comparison_of, plan, size_text
from driftless.compare.sweep import cell_name, value_text
from driftless.compare.variants import is_name, is_variant

__all__ = [
    "COMPARISON",
    "Comparison",
    "cell_name",
    "comparison_above",
    "comparison_of",
    "execute",
    "is_comparison",
    "is_name",
    "is_variant",
    "plan",
    "prepare_folder",
    "read_comparison",
    "read_options",
    "resume",
    "size_text",
    "value_text",
]
