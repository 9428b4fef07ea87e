"""The compose file for real: crawl the demo's website, kill, cut, stop and scale, and compare with the site's books.

``python -m tests.e2e.compose [WORD…]`` with any Docker engine that ``docker`` reaches; words choose checks by name.
BUILD_NETWORK=host lets the build use the host's network where containers have none, and takes the exporter's image from
Debian. Everything runs under a project name of its own, removed at the end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.e2e import compose_checks
from tests.e2e.compose_checks import PAGES
from tests.e2e.compose_stack import Stack


def checks(words: Sequence[str] = ()) -> list[Callable[[Stack, Path], None]]:
    """The checks in their file's order, those with one of `words` in their names (the image is always built)."""
    found = {name: value for name, value in vars(compose_checks).items() if name.startswith("check_")}
    return [value for name, value in found.items() if not words or any(word in name for word in [*words, "image"])]


def main(words: Sequence[str] = ()) -> int:
    """Runs the checks, prints one line each and the count; the exit code is 1 if one failed."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        print("docker compose does not answer: install Docker's compose plugin")
        return 1
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder), DEMO_PAGES=str(PAGES))
        try:
            for check in checks(words):
                name = check.__name__.removeprefix("check_").replace("_", " ")
                started = time.monotonic()
                try:
                    check(stack, Path(folder))
                    passed += 1
                    print(f"  ok      {name} ({time.monotonic() - started:.1f} s)", flush=True)
                except (AssertionError, subprocess.SubprocessError, KeyError, ValueError) as error:
                    failed += 1
                    print(f"  FAILED  {name}: {error}", flush=True)
        finally:
            stack.close()
    print(f"compose: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
