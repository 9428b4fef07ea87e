"""``scrapy canonical`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.project import run_scrapy

GOOD = """
[[site]]
hosts = ["a.example"]
strip = ["x"]
same = [["http://a.example/?x=1", "http://a.example/"]]
different = [["http://a.example/?id=1", "http://a.example/?id=2"]]
"""
BAD = GOOD.replace(
    '["http://a.example/?id=1", "http://a.example/?id=2"]', '["http://a.example/?x=1", "http://a.example/?x=2"]'
)


def test_urls_as_arguments() -> None:
    done = run_scrapy(["canonical", "HTTP://a.example:80/?b=1&a=2&utm_source=3#top", "http://www.simple.test/News/"])
    assert done.stdout.splitlines() == ["http://a.example/?a=2&b=1", "https://simple.test/news"]
    assert (done.returncode, done.stderr) == (0, "")


def test_urls_on_standard_input_and_json() -> None:
    done = run_scrapy(["canonical", "--json"], stdin="http://a.example/%7e\n\n  https://münchen.example/?q=é \n")
    first, second = map(json.loads, done.stdout.splitlines())
    assert set(first) == {"url", "canonical", "fingerprint", "steps"}
    assert (first["url"], first["canonical"]) == ("http://a.example/%7e", "http://a.example/~")
    assert len(bytes.fromhex(first["fingerprint"])) == 20
    assert first["steps"][0]["step"] == "path escapes"
    assert second["canonical"] == "https://xn--mnchen-3ya.example/?q=%C3%A9"


def test_explain_names_the_rule(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(GOOD)
    url = "http://a.example/?x=1&fbclid=2&jsessionid=3"
    done = run_scrapy(["canonical", "--explain", "--rules", str(tmp_path / "my.toml"), url])
    lines = done.stdout.splitlines()
    assert lines[0] == url
    assert any("drop x" in line and "my.toml: site 1 (a.example)" in line for line in lines)
    assert any("drop fbclid" in line and "click: Meta" in line for line in lines)
    assert lines[-1] == "  = http://a.example/?jsessionid=3"


def test_check_runs_every_example(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(GOOD)
    done = run_scrapy(["canonical", "--check", "--rules", str(tmp_path / "good.toml")])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" 0 failed\n")
    (tmp_path / "bad.toml").write_text(BAD)
    done = run_scrapy(["canonical", "--check", "--rules", str(tmp_path / "bad.toml")])
    assert done.returncode == 1
    assert "bad.toml: site 1 (a.example): different 1=http://a.example/?x=1 http://a.example/?x=2" in done.stderr
    assert done.stdout.endswith(" 1 failed\n")
    assert run_scrapy(["canonical", "--rules", str(tmp_path / "bad.toml"), "http://a.example/"]).returncode == 1


def test_the_environment_adds_rules_and_groups(tmp_path: Path) -> None:
    """The command itself is there by COMMANDS_MODULE."""
    (tmp_path / "my.toml").write_text(GOOD)
    env = {"CANONICAL_RULES": str(tmp_path / "my.toml"), "CANONICAL_GROUPS": "session", "CANONICAL_OFF": "click"}
    done = run_scrapy(["canonical", "http://a.example/?x=1&fbclid=2&sessionid=0123456789abcdef"], env)
    assert done.stdout == "http://a.example/?fbclid=2\n"


@pytest.mark.parametrize(
    ("args", "env", "line"),
    [
        (["--rules", "none.toml", "http://a.example/"], {}, "--rules=none.toml: cannot be read: No such file"),
        (["http://a.example/"], {"CANONICAL_GROUPS": "x"}, "CANONICAL_GROUPS=x: must be one of affiliate, cachebuster"),
        (["--audit", "nobody"], {}, "spider=nobody: no such spider"),
        (["--spider", "nobody", "http://a.example/"], {}, "spider=nobody: no such spider"),
        (["--chek"], {}, "flag=--chek: unknown; did you mean --check?"),
        (["http://a.example/", "-x"], {}, "flag=-x: unknown; use one of --explain, --json, --check"),
        (["--suggest", "quotes"], {"REDIS_URL": "http://x"}, "REDIS_URL=http://x: "),
    ],
)
def test_bad_input_is_one_line(args: list[str], env: dict[str, str], line: str) -> None:
    done = run_scrapy(["canonical", *args], env)
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.returncode == 2


def test_a_crawl_with_a_bad_rule_does_not_start(tmp_path: Path, redis_url: str) -> None:
    (tmp_path / "bad.toml").write_text(BAD)
    env = {"CANONICAL_RULES": str(tmp_path / "bad.toml"), "REDIS_URL": redis_url, "FEED_DIR": str(tmp_path)}
    done = run_scrapy(["crawl", "site", "-a", "start=http://127.0.0.1:9/"], env)
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1
    assert "bad.toml: site 1 (a.example): different 1=" in done.stderr
