"""Random words after `driftless`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fuzz.fuzzing import ABSURD, assert_explained, empty_folder, share
from fuzz.toml import Tables, as_toml, tables

TEXTS = sorted({as_toml(value) for value in ABSURD} | {value for value in ABSURD if isinstance(value, str)})
texts = (st.sampled_from(TEXTS) | st.text(max_size=6)).filter(lambda text: "\x00" not in text)
NAMES = ["fedavg", "scaffold", "algorithms", "datasets", "models", "papers", "adabest", "ghbm/table-2", ".", "a.toml"]
words = (
    st.sampled_from(NAMES) | texts | st.builds("{}={}".format, st.sampled_from(["seed", "a.b", "", "space.lr"]), texts)
)
FLAGS = {
    "run": ["--quiet", "--json", "--again", "--print-config", "--track", "--callback"],
    "compare": ["--full", "--json", "--quiet"],
    "tune": ["--quiet", "--json"],
    "resume": ["--jobs", "--workers", "--track", "--callback", "--json"],
    "report": ["--output", "--figures", "--target", "--overwrite"],
    "cost": ["--model", "--data", "--steps", "--batch-size", "--examples", "--json"],
    "list": ["--json"],
    "reproduce": ["--scale", "--output", "--publish", "--jobs", "--json", "--quiet"],
    "nothing": [],
}
ANYWHERE = ["--help", "--version", "--nothing", "--", "-", "--[/bold]", "-q"]
TINY = ["data.clients=20", "model=logistic", "rounds=1", "cohort=2", "workers=1"]
ALWAYS = {
    "run": ["--quiet"],
    "compare": ["fedavg", "seeds=1", "--jobs", "1"],
    "tune": ["trials=1", "--jobs", "1"],
    "cost": ["fedavg"],
    "reproduce": ["--plan"],
}
"""What keeps a command short."""


@share(0.08)
@given(st.data(), st.sampled_from(sorted(FLAGS)))
def test_any_words_are_carried_out_or_refused_with_a_message(data: st.DataObject, command: str):
    options = st.sampled_from(FLAGS[command] or ANYWHERE) | st.sampled_from(ANYWHERE)
    given = data.draw(st.lists(words | options, max_size=4))
    tiny = TINY if command in ("run", "compare", "tune") else []
    with empty_folder() as folder:
        assert_explained(folder, [command, *given, *tiny, *ALWAYS.get(command, [])])


@share(0.12)
@given(st.sampled_from(["run", "run", "run", "compare", "tune"]), tables())
def test_settings_on_the_command_line_are_used_or_refused_with_a_message(command: str, tables: Tables):
    given = [f"{section}.{name}={as_toml(value)}" for section, table in tables.items() for name, value in table.items()]
    given = [word for word in given if "\x00" not in word and (command != "compare" or "algorithm" not in word)]
    with empty_folder() as folder:
        assert_explained(folder, [command, *given, *ALWAYS.get(command, [])])
