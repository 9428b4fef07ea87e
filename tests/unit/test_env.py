"""``.env`` and the environment: which lines it may hold, what wins, and the one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.env import PROJECT, Env, read_env_file
from crawler.errors import ConfigError


def test_env_file_below_the_real_environment(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("BOT_NAME=from-file\nCONTACT=file@example.com\n", encoding="utf-8")
    env = Env.load({"CRAWLER_ENV_FILE": str(file), "BOT_NAME": "real"})
    assert (env.text("BOT_NAME"), env.text("CONTACT")) == ("real", "file@example.com")


def test_a_named_env_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^CRAWLER_ENV_FILE=.*/absent: there is no such file$"):
        Env.load({"CRAWLER_ENV_FILE": str(tmp_path / "absent")})


def test_the_example_env_file_is_readable() -> None:
    assert {"BOT_NAME", "CONTACT", "REDIS_KEY_PREFIX"} <= set(read_env_file(PROJECT / ".env.example"))


def test_an_empty_variable_is_unset_and_hides_the_file(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("FRONTIER_IDLE=5\nFEED_DIR=/data\n", encoding="utf-8")
    env = Env.load({"CRAWLER_ENV_FILE": str(file), "FRONTIER_IDLE": ""})
    assert env.number("FRONTIER_IDLE", 0) == 0
    assert not env.isset("FRONTIER_IDLE")
    assert env.isset("FEED_DIR")


def test_env_file_lines(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(
        '# who\n\nexport A=1\n  B = two words  # why\nC=\'it"s $5 # no\'\nD="x y" # c\nE=\nF=a#b\nG= # nothing\n',
        encoding="utf-8",
    )
    assert read_env_file(file) == {
        "A": "1", "B": "two words", "C": 'it"s $5 # no', "D": "x y", "E": "", "F": "a#b", "G": "",
    }  # fmt: skip
    assert read_env_file(tmp_path / "absent") == {}


@pytest.mark.parametrize("line", ["BOT_NAME", "2X=1", "A B=1", "P='open", 'P="a$b"', "P=pa$word", "P=it's"])
def test_a_bad_line_of_the_env_file_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / ".env"
    file.write_text(f"A=1\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^\.env line 2=") as caught:
        read_env_file(file)
    assert "open" not in str(caught.value)  # a value may be a password
