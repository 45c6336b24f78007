"""What mkdocs calls while it builds the site: pages that are generated, and links that leave docs/."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

import algorithm_map
import algorithm_page
import notebooks
import source_files

from driftless import ALGORITHMS

ASSETS = Path(__file__).parent / "assets"
LISTED = ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md")
"""Pages outside docs/ that the navigation has."""
GENERATED: dict[str, str] = {}
"""Page in the site -> path in the project of those that are made from a file outside docs/."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The pages of the algorithms are listed where the navigation says so."""
    config.nav = [with_algorithms(entry) for entry in config.nav or []]
    return config


def with_algorithms(entry: Any) -> Any:
    if isinstance(entry, dict) and "Algorithms" in entry:
        pages = [{cls.__name__: f"algorithms/{name}.md"} for name, cls in ALGORITHMS.items()]
        return {"Algorithms": [*entry["Algorithms"], *pages]}
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    docs = Path(config.docs_dir)
    pages = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    for path, content in {**algorithm_pages(), **notebook_pages(docs), **project_pages(pages), **assets()}.items():
        files.append(File.generated(config, path, content=content))
    return files


def algorithm_pages() -> dict[str, str]:
    pages = {f"algorithms/{name}.md": algorithm_page.page(name) for name in ALGORITHMS}
    return {**pages, "algorithms/map.md": algorithm_map.page()}


def notebook_pages(docs: Path) -> dict[str, str | bytes]:
    found: dict[str, str | bytes] = {}
    for file in sorted(docs.rglob("*.ipynb")):
        made = notebooks.page(file)
        path = file.relative_to(docs)
        found[path.with_suffix(".md").as_posix()] = made.text
        found |= {(path.parent / name).as_posix(): picture for name, picture in made.pictures.items()}
    return found


def project_pages(pages: list[str]) -> dict[str, str]:
    found = source_files.reached_from([*pages, *LISTED])
    GENERATED.update({source_files.in_site(path): path for path in found})
    return {source_files.in_site(path): text for path, text in found.items()}


def assets() -> dict[str, bytes]:
    files = (file for file in sorted(ASSETS.rglob("*")) if file.is_file())
    return {f"assets/{file.relative_to(ASSETS).as_posix()}": file.read_bytes() for file in files}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    path = GENERATED.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return source_files.with_links(markdown, path)
