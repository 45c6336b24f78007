"""Files outside docs/ that pages link to: they become pages of the site, which is then complete without a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

ROOT = Path(__file__).parents[1]
LANGUAGES = {".py": "py", ".toml": "toml", ".sh": "sh", ".md": "markdown"}
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)((?:#[^)]*)?\))")


def in_site(path: str) -> str:
    """Where a file or folder of the project stands in the site."""
    if path.startswith("docs/"):
        found = path.removeprefix("docs/")
        return found.removesuffix(".ipynb") + ".md" if found.endswith(".ipynb") else found
    return f"project/{path}" if path.endswith(".md") else f"project/{path}.md"


def links(text: str, page: str) -> Iterator[str]:
    """The paths in the project that a page's links lead to."""
    for found in LINK.finditer(text):
        path = normpath(join(dirname(page), found[2]))
        if not path.startswith("..") and (ROOT / path).exists():
            yield path


def with_links(text: str, page: str) -> str:
    """The page's text with links that are right in the site."""

    def one(found: re.Match[str]) -> str:
        path = normpath(join(dirname(page), found[2]))
        if path.startswith("..") or not (ROOT / path).exists():
            return found[0]  # generated, or dead: mkdocs says which
        return f"{found[1]}{relpath(in_site(path), dirname(in_site(page)) or '.')}{found[3]}"

    return LINK.sub(one, text)


def reached_from(pages: Iterable[str]) -> dict[str, str]:
    """Path and text of every file outside docs/ among these pages and those that they, directly or not, link to."""
    found: dict[str, str] = {}
    left, seen = list(pages), set[str]()
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        text = content(path)
        if not path.startswith("docs/"):
            found[path] = text
        if path.endswith(".md"):
            left += [other for other in links(text, path) if not other.startswith("docs/")]
    return found


def content(path: str) -> str:
    """A page as it is; a file of code as a fence; a folder as its files."""
    file = ROOT / path
    if file.suffix == ".md":
        return file.read_text(encoding="utf-8")
    files = sorted(one for one in file.iterdir() if one.is_file()) if file.is_dir() else [file]
    parts = ["---", "search: { exclude: true }", "---", "", f"# `{path}`", ""]
    for one in files:
        language = LANGUAGES.get(one.suffix, "text")
        parts += [f"## {one.name}", "", f"````{language}", one.read_text(encoding="utf-8").rstrip(), "````", ""]
    return "\n".join(parts)
