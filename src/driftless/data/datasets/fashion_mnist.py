"""Fashion-MNIST: pictures of clothes in the files of MNIST; 60,000 to train and 10,000 to test.

Xiao, Rasul and Vollgraf, Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms, 2017.
"""

from __future__ import annotations

from driftless.data.datasets.mnist import files_like_mnist, load_like_mnist
from driftless.data.examples import Examples
from driftless.data.fetch import are_here
from driftless.data.preprocessing.images import PixelStatistics

SOURCE = "Fashion-MNIST, H. Xiao, K. Rasul and R. Vollgraf, Zalando SE, 2017, arXiv:1708.07747, MIT"
STATISTICS = PixelStatistics((0.2860,), (0.3530,))
FILES = files_like_mnist(
    "fashion-mnist",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "FashionMNIST",
    {
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    advice="on Debian and Ubuntu, apt-get install dataset-fashion-mnist",
)


def load(normalize: str = "dataset") -> Examples:
    return load_like_mnist("fashion-mnist", FILES, STATISTICS, SOURCE, normalize)


def is_here() -> bool:
    return are_here("fashion-mnist", *FILES)
