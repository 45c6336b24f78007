"""MNIST: handwritten digits, 28x28 pixels; 60,000 to train and 10,000 to test.

LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, Proc. IEEE 1998.
"""

from __future__ import annotations

from driftless.data.datasets import idx
from driftless.data.datasets.images import Scale
from driftless.data.datasets.source import Examples
from driftless.data.fetch import are_here

SOURCE = "MNIST, Y. LeCun, C. Cortes and C. Burges, 1998, usually given as CC BY-SA 3.0"
SCALE = Scale((0.1307,), (0.3081,))
FILES = idx.forms(
    "mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "MNIST",
    {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)


def load(normalize: str = "dataset") -> Examples:
    return idx.examples("mnist", FILES, 10, SCALE, SOURCE, normalize)


def is_here() -> bool:
    return are_here("mnist", *FILES)
