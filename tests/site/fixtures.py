"""Pytest plugin: the `site` fixture starts local websites and stops them after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.site.options import Options, plain
from tests.site.server import Site


@pytest.fixture
def site() -> Iterator[Callable[..., Site]]:
    """``site(pages=30, easy=True)`` → a running :class:`Site`; `easy` starts from a site without difficulties."""
    with ExitStack() as stack:

        def start(*, easy: bool = False, **options: Any) -> Site:
            return stack.enter_context(Site(plain(**options) if easy else Options(**options)))

        yield start
