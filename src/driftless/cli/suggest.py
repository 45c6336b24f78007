"""suggest: three algorithms to try first. Nothing is trained."""

from __future__ import annotations

from typing import Annotated

import typer

from driftless.cli.arguments import Arguments, Json, reject_names, split_arguments
from driftless.config import resolution
from driftless.config.build import cohort_of, federation_of, model_of
from driftless.console import loading, print_json, print_line


def suggest_command(
    words: Arguments = None,
    no_client_state: Annotated[
        bool, typer.Option("--no-client-state", help="Clients cannot keep anything between rounds.")
    ] = False,
    upload: Annotated[
        float | None, typer.Option(help="Vectors of the model's size that a client may send in a round, such as 1.")
    ] = None,
    upload_bytes: Annotated[str | None, typer.Option(help="The same in bytes, such as 500kB or 5MB.")] = None,
    private: Annotated[bool, typer.Option("--private", help="It must work with differential privacy.")] = False,
    as_json: Json = False,
) -> None:
    """Which algorithms to try first on your data, and why: driftless suggest data=digits data.alpha=0.1 cohort=10"""
    names, file, overrides = split_arguments(words or [])
    reject_names(names)
    config = resolution.resolve(file, overrides).config
    with loading(f"loading {config.data.name} ...", as_json):
        from driftless.suggest import suggest

        federation = federation_of(config)
        found = suggest(
            federation,
            model_of(config, federation),
            rounds=config.run.rounds,
            cohort=cohort_of(config),
            client_state=not no_client_state,
            upload=upload,
            upload_bytes=upload_bytes,
            private=private or config.privacy.is_on,
            words=[*([str(file)] if file else []), *filter(is_kept, overrides)],
        )
    if as_json:
        print_json(found.as_json())
    else:
        print_line(str(found))


def is_kept(word: str) -> bool:
    """The algorithm and the output are those of the commands that are suggested."""
    return word.partition("=")[0].strip() not in ("algorithm", "algorithm.name", "output", "run.output")
