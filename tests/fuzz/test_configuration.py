"""Configuration files with wrong keys and values, and bytes that are no configuration."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fuzz.fuzzing import assert_explained, empty_folder, share
from fuzz.toml import file_of, tables


@share(0.26)
@given(tables())
def test_a_configuration_is_run_or_refused_with_a_message(settings):
    with empty_folder() as folder:
        (folder / "config.toml").write_bytes(file_of(settings))
        assert_explained(folder, ["run", "config.toml", "--quiet"])


@share(0.08)
@given(tables(), st.binary(max_size=6), st.integers(0, 300), st.integers(0, 300))
def test_a_damaged_configuration_is_run_or_refused_with_a_message(settings, noise, start, length):
    """Long settings cannot appear: the tables are those of a tiny run, and what is put in is short."""
    content = file_of(settings)
    with empty_folder() as folder:
        (folder / "config.toml").write_bytes(content[:start] + noise + content[start + length :])
        assert_explained(folder, ["run", "config.toml", "--print-config"])
