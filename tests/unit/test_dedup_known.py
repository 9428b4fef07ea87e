"""The memory of what is known to be seen: bounded, and emptied by another epoch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.dedup import KnownSeen


def test_only_what_was_added_is_seen() -> None:
    known = KnownSeen(10)
    assert not known.seen(b"a")
    known.add(b"a")
    assert known.seen(b"a")
    assert not known.seen(b"b")


@given(st.integers(0, 50), st.lists(st.binary(max_size=1), max_size=300))
def test_it_never_holds_more_than_its_size_and_knows_the_latest(size: int, added: list[bytes]) -> None:
    known = KnownSeen(size)
    for fingerprint in added:
        known.add(fingerprint)
        assert len(known) <= size + 1
        assert known.seen(fingerprint) == (size > 0)


def test_what_is_asked_for_stays_and_the_rest_goes() -> None:
    known = KnownSeen(10)
    known.add(b"home")
    for number in range(100):
        known.add(b"%d" % number)
        assert known.seen(b"home")
    assert not known.seen(b"0")


def test_another_epoch_drops_everything() -> None:
    known = KnownSeen(10)
    known.sync("1")
    known.add(b"a")
    known.sync("1")
    assert known.seen(b"a")
    known.sync("2")
    assert not known.seen(b"a")


def test_verdicts_that_come_with_another_epoch_are_not_remembered() -> None:
    """One exchange answers "seen", and then forgets the same page, which failed: the next link must be asked again."""
    known = KnownSeen(10)
    known.sync("1")
    known.add(b"a")
    known.sync("2")
    known.add(b"a")
    assert not known.seen(b"a")
    known.sync("2")
    known.add(b"a")
    assert known.seen(b"a")
