"""`driftless new DIR` and `driftless deploy new DIR`: small projects that run as they are.

`template/` is examples/own; that of a federation is with its code.
"""

from __future__ import annotations

from pathlib import Path

from driftless.errors import InputError

TEMPLATE = Path(__file__).with_name("template")
FEDERATION = Path(__file__).parent.parent / "deploy" / "template"
HIDDEN = {"gitignore": ".gitignore"}
"""Files whose name begins with a dot only in the project."""


def write_project(folder: Path, template: Path = TEMPLATE) -> list[Path]:
    """Write the files into a folder that does not exist or is empty; returns their paths."""
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise InputError(f"'{folder}' exists and is not an empty folder; name a new one.")
    written: list[Path] = []
    for file in sorted(template.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            path = folder / file.relative_to(template)
            written.append(path.with_name(HIDDEN.get(path.name, path.name)))
            written[-1].parent.mkdir(parents=True, exist_ok=True)
            written[-1].write_bytes(file.read_bytes())
    return written
