"""``scrapy dedup`` run in this process, as ``scrapy`` does in its own."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.commands.dedup import Command


@dataclass
class Done:
    """What a command did."""

    returncode: int
    stdout: str
    stderr: str


class Dedup:
    """Runs the command in this process, as ``scrapy dedup`` does in its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, url: str, *words: str, ok: bool = True, **settings: Any) -> Done:
        command = Command()
        command.settings = Settings()
        command.settings.setmodule("crawler.settings", priority="project")
        command.settings.setdict({"REDIS_URL": url, **settings}, priority="cmdline")
        parser = argparse.ArgumentParser()
        command.add_options(parser)
        opts, args = parser.parse_known_args([*words])
        command.exitcode = 0
        command.run(args, opts)
        out, err = self._capsys.readouterr()
        assert (command.exitcode == 0) == ok, err
        return Done(command.exitcode, out, err)
