"""Random words after `driftless`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from driftless import ALGORITHMS
from driftless.config.resolution import SECTIONS
from fuzz.fuzzing import ABSURD, assert_explained, empty_folder, share
from fuzz.toml import OPTIONS, as_toml

TINY = ["data.clients=20", "model=logistic", "cohort=2", "rounds=1", "workers=1"]
KEYS = sorted(
    {key for cls in SECTIONS.values() for key in cls.model_fields}
    | {f"{section}.{key}" for section, cls in SECTIONS.items() for key in cls.model_fields}
    | {*SECTIONS, *OPTIONS, "seeds", "trials", "sampler", "space.local.lr", "compare.seeds", "", "a.b.c", "."}
)
FLAGS = [
    "--quiet", "-q", "--json", "--again", "--print-config", "--track", "--callback", "--jobs", "--full", "--help",
    "--output", "-o", "--figures", "--target", "--overwrite", "--model", "--data", "--steps", "--batch-size",
    "--examples", "--scale", "--publish", "--workers", "--nothing", "--", "-", "--[/bold]", "--version",
]  # fmt: skip
COMMANDS = ["run", "run", "run", "compare", "tune", "resume", "report", "cost", "list", "reproduce", "nothing", ""]

argument_texts = st.sampled_from([str(v) for v in ABSURD if not isinstance(v, (list, dict))]) | st.sampled_from(
    [as_toml(v) for v in ABSURD]
)
texts = argument_texts.filter(lambda text: "\x00" not in text) | st.text(max_size=6).filter(lambda t: "\x00" not in t)
plain = texts | st.sampled_from([*sorted(ALGORITHMS), "algorithms", "models", "papers", "adabest", "ghbm/table-2", "."])
pairs = st.builds(lambda key, text: f"{key}={text}", st.sampled_from(KEYS), texts)
words = st.lists(pairs | pairs | pairs | st.sampled_from(FLAGS) | plain, max_size=3)


def takes_long(word: str) -> bool:
    """What is allowed, and long: forked processes, and a command that runs all experiments of a paper."""
    return word.endswith("workers=2") or word == "2"


@share(0.16)
@given(st.sampled_from(COMMANDS), words, st.booleans())
def test_any_words_are_obeyed_or_refused_with_a_message(command: str, words: list[str], tiny: bool):
    words = [word for word in words if not takes_long(word)]
    if command in ("run", "compare", "tune"):
        given = {word.partition("=")[0].rpartition(".")[2] for word in words}
        words += [word for word in TINY if word.partition("=")[0].rpartition(".")[2] not in given]
        words += ["trials=1", "--jobs", "1"] if command == "tune" else []
        words += ["seeds=1", "--jobs", "1"] if command == "compare" else []
    if command == "reproduce":
        words.append("--plan")
    with empty_folder() as folder:
        assert_explained(folder, [command, *words] if tiny or command else words)
