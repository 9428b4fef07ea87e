"""Copies of the project: `make new` gives one an identity, `make update` brings a later template in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from crawler.env import PROJECT, read_env_file

GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


def git(folder: Path, *words: str) -> str:
    done = subprocess.run([*GIT, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("NAME", "DIR", "CONTACT", "FROM", "REF")}
    return subprocess.run(["make", *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


def script(name: str) -> tuple[str, ...]:
    """A constant of deploy/template.py, which is no module."""
    names: dict[str, object] = {}
    text = (PROJECT / "deploy" / "template.py").read_text()
    exec(text, {"__name__": "", "__file__": str(PROJECT / "deploy/x")}, names)
    value = names[name]
    assert isinstance(value, tuple)
    return value


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A small template with a history: what the script needs, one engine file, your rooms."""
    folder = tmp_path / "template"
    for name in ("Makefile", ".env.example", ".gitignore", "deploy/template.py", "crawler/settings.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((PROJECT / name).read_bytes())
    (folder / "crawler" / "engine.py").write_text("".join(f"line {number}\n" for number in range(20)))
    (folder / "crawler" / "old.py").write_text("going\n")
    (folder / "crawler" / "spiders").mkdir()
    (folder / "crawler" / "spiders" / "quotes.py").write_text("an example\n")
    git(tmp_path, "init", "-q", str(folder))
    commit(folder, "template")
    (folder / ".env").write_text("REDIS_PASSWORD=the-template-s-own\n")
    (folder / "items").mkdir()
    (folder / "items" / "site.jsonl").write_text("{}\n")
    return folder


@pytest.fixture
def copy(template: Path, tmp_path: Path) -> Path:
    """A copy with a commit of its own."""
    done = make(template, "new", "NAME=shop", "DIR=../shop", "CONTACT=https://shop.example/bot")
    assert done.returncode == 0, done.stderr
    git(tmp_path, "init", "-q", "shop")
    commit(tmp_path / "shop", "copied")
    return tmp_path / "shop"


def test_a_copy_is_the_tracked_tree_with_an_identity(template: Path, copy: Path) -> None:
    assert git(copy, "ls-files").split() == sorted([*git(template, "ls-files").split(), ".template"])
    assert not (copy / "items").exists()
    env = read_env_file(copy / ".env")
    password = env.pop("REDIS_PASSWORD")
    assert len(password) == 32
    assert set(password) <= set("0123456789abcdef")
    assert env["CONTACT"] == "https://shop.example/bot"
    assert {env[name] for name in ("BOT_NAME", "REDIS_KEY_PREFIX", "COMPOSE_PROJECT_NAME")} == {"shop"}
    assert (env["SPIDER"], env["SPIDER_ARGS"]) == ("site", "")  # the site of the example is not the copy's
    assert "Change both: SPIDER to your spider" in (copy / ".env").read_text()
    assert (copy / ".env").stat().st_mode & 0o077 == 0
    assert (copy / ".template").read_text().splitlines()[1:] == ["../template", git(template, "rev-parse", "HEAD")]


def test_without_git_only_what_belongs_to_the_project_is_copied(template: Path, tmp_path: Path) -> None:
    (template / ".git").rename(tmp_path / "away")
    (template / "shop.csv").write_text("of `scrapy items -o`\n")
    (template / "notes").mkdir()
    (template / "notes" / "diary.txt").write_text("")
    (template / "crawler" / "__pycache__").mkdir()
    (template / "crawler" / "__pycache__" / "x.pyc").write_bytes(b"")
    assert make(template, "new", "NAME=two", "DIR=../two").returncode == 0
    files = {str(path.relative_to(tmp_path / "two")) for path in (tmp_path / "two").rglob("*") if path.is_file()}
    assert files == {
        ".env", ".env.example", ".gitignore", ".template", "Makefile", "crawler/engine.py", "crawler/old.py",
        "crawler/settings.py", "crawler/spiders/quotes.py", "deploy/template.py",
    }  # fmt: skip


@pytest.mark.skipif((PROJECT / ".template").exists(), reason="a copy's root has its owner's files too")
def test_the_parts_are_what_git_tracks() -> None:
    if (PROJECT / ".git").exists():
        names = git(PROJECT, "ls-files").splitlines()
        assert {name.partition("/")[0] for name in names} == set(script("PARTS"))


MISTAKES = {
    "NAME=Shop! DIR=../x": "NAME=Shop!: must begin with a-z",
    "NAME=shop": "DIR=: say where the copy goes",
    "NAME=shop DIR=../used": "DIR=../used: is there already",
    "NAME=shop DIR=copies/shop": "DIR=copies/shop: lies inside the project",
    "NAME=shop DIR=../file/x": "DIR=../file/x: Not a directory",
    "NAME=shop DIR=../x CONTACT=a#b": "CONTACT=a#b: must be a URL or an address",
}


def test_a_copy_that_cannot_be_made_is_one_line(template: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").write_text("")
    (tmp_path / "file").write_text("")
    for words, line in MISTAKES.items():
        done = make(template, "new", *words.split())
        assert done.returncode != 0
        said = [said for said in done.stderr.splitlines() if not said.startswith("make")]
        assert [text.startswith(line) for text in said] == [True], done.stderr
    assert not (tmp_path / "x").exists()


def test_an_update_merges_the_engine_and_leaves_your_rooms(template: Path, copy: Path) -> None:
    (copy / "crawler" / "settings.py").write_text("MINE = True\n")
    (copy / "crawler" / "spiders" / "quotes.py").unlink()
    engine = copy / "crawler" / "engine.py"
    engine.write_text(engine.read_text().replace("line 1\n", "line 1, mended here\n"))
    commit(copy, "mine")

    newer = template / "crawler" / "engine.py"
    newer.write_text(newer.read_text().replace("line 17\n", "line 17, better\n"))
    (template / "crawler" / "old.py").unlink()
    (template / "crawler" / "added.py").write_text("new\n")
    (template / "crawler" / "settings.py").write_text("THEIRS = True\n")
    (template / "crawler" / "spiders" / "quotes.py").write_text("a better example\n")
    (template / "crawler" / "spiders" / "more.py").write_text("one more example\n")
    head = commit(template, "a later version")

    done = make(copy, "update", f"FROM={template}")
    assert done.returncode == 0, done.stderr
    assert "crawler/settings.py" in done.stdout  # what it did not take is named
    assert (copy / "crawler" / "settings.py").read_text() == "MINE = True\n"
    assert not list((copy / "crawler").glob("spiders/*"))
    assert engine.read_text() == newer.read_text().replace("line 1\n", "line 1, mended here\n")
    assert not (copy / "crawler" / "old.py").exists()
    assert (copy / "crawler" / "added.py").read_text() == "new\n"
    assert read_env_file(copy / ".env")["BOT_NAME"] == "shop"
    assert head in (copy / ".template").read_text()

    commit(copy, "updated")
    again = make(copy, "update")  # it knows now where the template is
    assert (again.returncode, git(copy, "status", "--porcelain")) == (0, ""), again.stderr


@pytest.mark.slow
def test_both_changed_is_a_conflict_that_names_the_file(template: Path, copy: Path) -> None:
    for folder, text in ((copy, "mine"), (template, "theirs")):
        engine = folder / "crawler" / "engine.py"
        engine.write_text(engine.read_text().replace("line 9\n", f"line 9, {text}\n"))
        commit(folder, text)
    done = make(copy, "update")
    assert done.returncode != 0
    assert "both changed, resolve as after a git merge: crawler/engine.py" in done.stderr
    assert "<<<<<<<" in (copy / "crawler" / "engine.py").read_text()


@pytest.mark.slow
def test_a_clone_finds_its_version_in_the_history(template: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(template), str(clone))
    (clone / "crawler" / "spiders" / "own.py").write_text("mine\n")
    commit(clone, "mine")
    (template / "crawler" / "added.py").write_text("new\n")
    commit(template, "later")
    assert make(clone, "update", f"FROM={template}").returncode == 0
    assert (clone / "crawler" / "added.py").exists()
    assert (clone / "crawler" / "spiders" / "own.py").exists()


def test_an_update_that_could_not_be_undone_is_refused(template: Path, copy: Path, tmp_path: Path) -> None:
    (copy / "crawler" / "engine.py").write_text("not committed\n")
    (copy / "shop.csv").write_text("of `scrapy items -o`, in nobody's way\n")
    (copy / "notes.txt").write_text("")
    assert "commit your changes first: crawler/engine.py notes.txt\n" in make(copy, "update").stderr
    (copy / "notes.txt").unlink()
    git(copy, "checkout", "-q", ".")
    assert "FROM=/nowhere" not in (told := make(copy, "update", "FROM=/nowhere").stderr)
    assert "git fetch: fatal: '/nowhere' does not appear to be a git repository" in told
    (copy / ".git").rename(tmp_path / "away")
    assert "make update needs a git repository" in make(copy, "update").stderr


def test_the_docs_name_your_rooms() -> None:
    text = (PROJECT / "docs" / "template.md").read_text()
    yours = script("YOURS")
    assert [room for room in yours if f"`{room}`" not in text and f"`{room}/`" not in text] == []
    assert [room for room in yours if room != ".env" and not (PROJECT / room).exists()] == []
