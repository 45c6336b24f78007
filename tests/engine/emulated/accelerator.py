"""torch with the device "emulated": accelerator.cpp, compiled, and what a device needs on the side of Python.

It cannot compute convolutions, and it has no autocast.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sysconfig
from pathlib import Path

import torch
from torch.utils import backend_registration as registration
from torch.utils import cpp_extension

NAME = "emulated"
SOURCE = Path(__file__).with_name("accelerator.cpp")
FREE = 2**33


class Module(registration._DummyBackendModule):
    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def get_rng_state(self, device: object = None) -> torch.Tensor:
        return torch.zeros(1)  # nothing draws from it

    def set_rng_state(self, state: torch.Tensor, device: object = None) -> None: ...


class Hook(registration._DummyPrivateUse1Hook):
    def is_available(self) -> bool:
        return True

    def is_built(self) -> bool:
        return True


def install(folder: Path) -> None:
    """Compile it into the folder, about a minute, and make it the accelerator of this process."""
    library = folder / "accelerator.so"
    include = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    links = [f"-L{path}" for path in cpp_extension.library_paths()]
    words = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", "-DTORCH_EXTENSION_NAME=accelerator", str(SOURCE)]
    words += [f"-isystem{path}" for path in include] + links + ["-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10"]
    subprocess.run([*words, "-o", str(library)], check=True)
    registration._setup_privateuseone_for_python_backend(NAME, backend_module=Module(), hook=Hook())
    spec = importlib.util.spec_from_file_location("accelerator", library)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    torch.accelerator.current_accelerator = lambda check_available=False: torch.device(NAME)
    torch.accelerator.device_count = lambda: 1
    torch.accelerator.get_memory_info = lambda device=None: (FREE, FREE)
    torch.Tensor.pin_memory = lambda self, device=None: self
