"""`driftless new DIR`: a small project of one's own that runs as it is. `template/` is examples/own."""

from __future__ import annotations

from pathlib import Path

from driftless.errors import InputError

TEMPLATE = Path(__file__).with_name("template")


def write_project(folder: Path) -> list[Path]:
    """Write the files into a folder that does not exist or is empty; returns their paths."""
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise InputError(f"'{folder}' exists and is not an empty folder; name a new one: driftless new FOLDER.")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for file in sorted(TEMPLATE.iterdir()):
        if file.is_file():
            written.append(folder / file.name)
            written[-1].write_bytes(file.read_bytes())
    return written
