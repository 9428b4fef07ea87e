"""Copies of this project: ``new NAME DIR [CONTACT]`` makes one, ``update [FROM [REF]]`` brings a later template in.

`make new` and `make update` call this. Any Python 3 with its standard library runs it: a copy needs no environment.

An update is git's three-way merge between the template's commit that the copy has and the newer one, for every file but
those in YOURS: they are never touched, whatever the template did to them.
"""

from __future__ import annotations

import fnmatch
import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

YOURS = (
    ".env", "README.md", "crawler/items.py", "crawler/pipelines.py", "crawler/rules.toml", "crawler/settings.py",
    "crawler/spiders",
)  # fmt: skip
PARTS = (  # what the root of the project consists of; a user's own files beside them are not copied
    ".ci", ".dockerignore", ".env.example", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md",
    "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "crawler", "deploy",
    "docker-compose.override.yml", "docker-compose.yml", "docs", "pyproject.toml", "requirements-bench.txt",
    "requirements-dev.txt", "requirements.txt", "scrapy.cfg", "tests",
)  # fmt: skip
ROOT = Path(__file__).resolve().parent.parent
RECORD = ".template"  # in a copy: which commit of which template it has
NEW = "make new NAME=shop DIR=../shop CONTACT=https://shop.example/bot"


class CopyError(Exception):
    """One line for the user."""


def git(folder: Path, *words: str, check: bool = True, stdin: bytes | None = None) -> bytes:
    """What ``git WORDS`` prints in `folder`. Raises CopyError with git's own line when it fails."""
    try:
        done = subprocess.run(["git", "-C", folder, *words], input=stdin, capture_output=True, check=False)
    except FileNotFoundError:
        raise CopyError("git: not found; install it") from None
    if check and done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["(no message)"]
        raise CopyError(f"git {words[0]}: {next((line for line in lines if line.startswith('fatal:')), lines[-1])}")
    return done.stdout


def is_repository(folder: Path) -> bool:
    """Whether `folder` is the top of a git work tree."""
    try:
        top = git(folder, "rev-parse", "--show-toplevel", check=False).decode().strip()
    except CopyError:
        return False
    return bool(top) and Path(top).resolve() == folder


# ------------------------------------------------------------------------------------------------------------ new
def new(name: str, folder: str, contact: str = "") -> None:
    """Copies this tree to `folder` and writes its ``.env``. Raises CopyError; then nothing was written."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", name):
        raise CopyError(f"NAME={name}: must begin with a-z and have up to 40 of a-z 0-9 _ - as in {NEW}")
    if re.search(r"['\"$#\s]", contact):
        raise CopyError(f"CONTACT={contact}: must be a URL or an address without blanks, quotes, $ and #")
    if not folder:
        raise CopyError(f"DIR=: say where the copy goes, as in {NEW}")
    target = Path(folder).expanduser().resolve()
    if target.is_relative_to(ROOT):
        raise CopyError(f"DIR={folder}: lies inside the project that is copied; take a folder beside it")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CopyError(f"DIR={folder}: is there already; take a new or empty folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path in tree():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, target / path, follow_symlinks=False)
        write_env(target / ".env", name, contact)
        (target / RECORD).write_text(record(os.path.relpath(ROOT, target)), encoding="utf-8")
    except OSError as error:
        raise CopyError(f"DIR={folder}: {error.strerror}") from None
    print(f"""{name} is in {target}; its identity is in {target / ".env"}{"" if contact else ": set CONTACT there"}
next:
  cd {folder} && git init -q && git add -A && git commit -qm "From the template"
  make venv && . .venv/bin/activate
  scrapy genspider -t crawl NAME https://site-to-crawl.example/ && scrapy crawl NAME""")


def tree() -> list[Path]:
    """The files that make the project: what git tracks; without git, its PARTS but for what .gitignore names."""
    if is_repository(ROOT):
        names = git(ROOT, "ls-files", "-z").decode().split("\0")
        return [Path(name) for name in names if name not in {"", RECORD} and (ROOT / name).is_file()]
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    found = [Path(name) for name in PARTS if (ROOT / name).is_file()]
    for part in PARTS:
        for top, folders, files in os.walk(ROOT / part):
            folders[:] = [name for name in folders if not is_named(name, ignored)]
            found += [Path(top, name).relative_to(ROOT) for name in files if not is_named(name, ignored)]
    return found


def is_named(name: str, patterns: list[str]) -> bool:
    """Whether one of `patterns` fits."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def write_env(path: Path, name: str, contact: str) -> None:
    """``.env.example`` with the copy's own values; nobody else may read it, for it holds a password."""
    values = {
        "BOT_NAME": name, "CONTACT": contact, "REDIS_KEY_PREFIX": name, "COMPOSE_PROJECT_NAME": name,
        "REDIS_PASSWORD": secrets.token_hex(16), "SPIDER_ARGS": "",  # the example's are for the demo's spider
    }  # fmt: skip
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    for key, value in values.items():
        text = re.sub(f"^{key}=.*$", f"{key}={value}", text, flags=re.MULTILINE)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def record(source: str, commit: str = "") -> str:
    """Text of the file that `make update` reads; the commit of this tree unless another is given."""
    if not commit and is_repository(ROOT):
        commit = git(ROOT, "rev-parse", "HEAD", check=False).decode().strip()
    return f"# The template that this project was made from: `make update` reads and writes it.\n{source}\n{commit}\n"


# --------------------------------------------------------------------------------------------------------- update
def update(source: str = "", ref: str = "HEAD") -> None:
    """Merges what the template at `source` changed since this copy's version; leaves it staged, not committed."""
    if not is_repository(ROOT):
        raise CopyError(
            "make update needs a git repository, so that it can be undone: git init, git add -A, git commit"
        )
    if changed := [line[3:] for line in git(ROOT, "status", "--porcelain").decode("utf-8", "replace").splitlines()]:
        names = " ".join(changed[:10]) + (f" and {len(changed) - 10} more" if len(changed) > 10 else "")
        raise CopyError(
            f"make update needs a clean work tree, so that it can be undone: commit your changes first: {names}"
        )
    known = (ROOT / RECORD).read_text(encoding="utf-8").splitlines()[1:] if (ROOT / RECORD).exists() else ["", ""]
    source = source or known[0]
    if not source:
        raise CopyError("FROM=: say where the template is, as in make update FROM=https://host/template.git")
    git(ROOT, "fetch", "--quiet", "--no-tags", source, ref)
    newer = git(ROOT, "rev-parse", "FETCH_HEAD").decode().strip()
    base = known[1] or git(ROOT, "merge-base", "HEAD", newer, check=False).decode().strip()
    if not base or git(ROOT, "cat-file", "-t", base, check=False).strip() != b"commit":
        raise CopyError(
            f"FROM={source}: its history does not have {base or 'a commit of this project'}; see docs/template.md"
        )
    conflicts = merge(base, newer)
    (ROOT / RECORD).write_text(record(source, newer), encoding="utf-8")
    git(ROOT, "add", RECORD)
    left = git(ROOT, "diff", "--name-only", base, newer, "--", *YOURS).decode().split()
    print(f"from {base[:10]} to {newer[:10]}; look: git diff --cached; then: make check test, git commit")
    for name in left:
        print(f"yours, left alone; the template's change: git diff {base[:10]} {newer[:10]} -- {name}")
    if conflicts:
        raise CopyError(f"both changed, resolve as after a git merge: {' '.join(conflicts)}")


def merge(base: str, newer: str) -> list[str]:
    """Applies ``base..newer`` but for YOURS and what was deleted here; names of files with conflicts."""
    deleted = (
        git(ROOT, "diff", "--name-only", "-z", "--diff-filter=D", "--no-renames", base, "HEAD").decode().split("\0")
    )
    spare = [f":(exclude,top,literal){name}" for name in (*YOURS, *filter(None, deleted))]
    patch = git(ROOT, "diff", "--binary", "--full-index", "--no-renames", base, newer, "--", ".", *spare)
    if not patch:
        return []
    try:
        git(ROOT, "apply", "--3way", "--index", stdin=patch)
    except CopyError:
        conflicts = git(ROOT, "diff", "--name-only", "--diff-filter=U").decode().split()
        if not conflicts:
            raise
        return conflicts
    return []


if __name__ == "__main__":
    try:
        (new if sys.argv[1] == "new" else update)(*sys.argv[2:])
    except CopyError as error:
        sys.exit(str(error))
