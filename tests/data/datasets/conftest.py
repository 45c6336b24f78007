from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driftless.data.datasets import cifar10, cifar100, emnist, fashion_mnist, mnist


@pytest.fixture
def without_sums(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, where small files under the names of MNIST and EMNIST are accepted."""
    for module in (mnist, fashion_mnist):
        files = [tuple(replace(file, checksum=None) for file in alternatives) for alternatives in module.FILES]
        monkeypatch.setattr(module, "FILES", files)
    monkeypatch.setattr(emnist, "ARCHIVE", tuple(replace(file, checksum=None) for file in emnist.ARCHIVE))
    monkeypatch.setattr(emnist, "_CHECKSUMS", {})
    return folder


@pytest.fixture
def cifar_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, where small files under the names of CIFAR-10 and CIFAR-100 are accepted."""
    for module, name in ((cifar10, "ARCHIVES"), (cifar100, "ARCHIVES"), (cifar100, "MOSAICS")):
        files = tuple(replace(file, checksum=None) for file in getattr(module, name))
        monkeypatch.setattr(module, name, files)
    for module in (cifar10, cifar100):
        monkeypatch.setattr(module, "LABELS", replace(module.LABELS, checksum=None))
    return folder
