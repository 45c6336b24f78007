"""The pages are only as well tested as this reader of pages."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tutorials.page import walk

HELLO = """
Write `data/hello.txt`:

```toml
hello
```

```sh
cat data/hello.txt
```

```text
{shown}
```

```sh
echo the end > end
```
"""


def page(*fences: str) -> str:
    return "\n".join(f"```{fence}\n```\n" for fence in fences)


def test_files_are_written_and_commands_follow_one_another_in_one_shell(tmp_path: Path):
    first = page("sh\nmkdir data; cd data; word=hello")
    then = page("toml\nx = 1", "sh\n[ $word = hello ]; mv a.txt b.txt")
    walk(first + "`a.txt`:\n\n" + then, tmp_path)
    assert (tmp_path / "data" / "b.txt").read_text() == "x = 1\n"


@pytest.mark.parametrize("shown", ["hello", "h...o", "..."])
def test_output_that_is_shown_may_leave_out_parts(shown: str, tmp_path: Path):
    (tmp_path / "data").mkdir()
    walk(HELLO.format(shown=shown), tmp_path)
    assert (tmp_path / "end").exists()


def test_other_output_than_shown_is_found(tmp_path: Path):
    (tmp_path / "data").mkdir()
    with pytest.raises(AssertionError, match=r"(?s)line 8 .*should print:\ngoodbye\n.*but printed:\nhello\n"):
        walk(HELLO.format(shown="goodbye"), tmp_path)


def test_a_command_that_fails_is_found_in_the_middle_of_a_block(tmp_path: Path):
    with pytest.raises(AssertionError, match=r"(?s)line 1 .*ended with"):
        walk(page("sh\nfalse\ntrue", "sh\ntrue"), tmp_path)


def test_the_last_command_that_fails_is_found(tmp_path: Path):
    with pytest.raises(AssertionError, match="ended with"):
        walk(page("sh\ntrue", "sh\nfalse"), tmp_path)


def test_a_command_may_fail_where_an_error_is_shown(tmp_path: Path):
    walk(page("sh\necho error: no such file; false", "text\nerror: no such file", "sh\ntrue"), tmp_path)


def test_a_command_must_fail_where_an_error_is_shown(tmp_path: Path):
    with pytest.raises(AssertionError, match="ended with"):
        walk(page("sh\necho error: no such file", "text\nerror: no such file", "sh\ntrue"), tmp_path)


def test_code_for_which_no_file_is_named_is_found(tmp_path: Path):
    with pytest.raises(AssertionError, match="names no file"):
        walk(page("py\nprint(1)"), tmp_path)


def test_a_program_that_is_left_in_the_background_is_ended(tmp_path: Path):
    walk(page("sh\n(sleep 0.5; echo late > late) &", "sh\ntrue"), tmp_path)
    time.sleep(1)
    assert not (tmp_path / "late").exists()
