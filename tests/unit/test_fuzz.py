"""Damaged bytes are refused in one line, whoever reads them: a short run of what ``make fuzz`` does for long."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier import payload
from crawler.frontier.message import MOST_PRIORITY
from crawler.frontier.payload import PayloadError
from crawler.frontier.seeds import SeedError, requests_from_seed
from crawler.frontier.values import pack
from tests.fuzz.__main__ import damaged
from tests.fuzz.targets import SPIDER, TARGETS

pytestmark = pytest.mark.filterwarnings("ignore:Possible nested set", "ignore:Flags not at the start")


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_examples(name: str) -> None:
    """With a seed that is fixed, so that a failure here is one tomorrow; ``make fuzz`` takes others."""
    random_ = random.Random(20261130)
    target = TARGETS[name]
    assert all(target.read(example) for example in target.examples)
    accepted = sum(target.read(damaged(random_, target)) for _ in range(150))
    assert 0 < accepted < 150


@given(st.data())
@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes(name: str, data: st.DataObject) -> None:
    TARGETS[name].read(data.draw(st.binary()))


HUGE = 10**5000


@pytest.mark.parametrize("body", [[HUGE, "http://a/"], [1, "http://a/", HUGE], [1, "http://a/", None, {HUGE: 1}]])
def test_numbers_that_python_does_not_print(body: list[object]) -> None:
    data = pack(body)
    with pytest.raises(PayloadError):
        payload.decode(data, SPIDER)
    if body[0] == HUGE:
        with pytest.raises(PayloadError):
            payload.url_of(data)


def test_a_priority_beyond_all_bounds() -> None:
    """It would not fit into the exchange, and would take every worker that meets it down."""
    assert payload.priority_of(pack([1, "http://a/", None, {11: HUGE}])) == MOST_PRIORITY
    with pytest.raises(SeedError, match="priority must be between"):
        requests_from_seed(b'{"url": "http://a/", "priority": -' + b"9" * 400 + b"}", SPIDER)
