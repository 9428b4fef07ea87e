"""The inbox: hosts in turn, each entry at its time, FIFO within a host."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.inbox import Inbox


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def anything(host: str) -> bool:
    return True


def drain(inbox: Inbox[str], may_start: Callable[[str], bool] = anything) -> list[str]:
    taken = []
    while (entry := inbox.take(may_start)) is not None:
        taken.append(entry)
    return taken


def test_hosts_take_turns() -> None:
    inbox: Inbox[str] = Inbox(Clock())
    for entry in ("a1", "a2", "a3", "b1", "b2", "c1"):
        inbox.put(entry[0], entry, 0.0)
    assert drain(inbox) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(inbox) == 0


def test_a_busy_host_is_passed_over() -> None:
    inbox: Inbox[str] = Inbox(Clock())
    for entry in ("slow1", "slow2", "b1"):
        inbox.put(entry.rstrip("12"), entry, 0.0)
    assert drain(inbox, lambda host: host != "slow") == ["b1"]
    assert list(inbox.hosts()) == [("slow", 2)]
    assert drain(inbox) == ["slow1", "slow2"]


def test_nothing_starts_before_its_time() -> None:
    clock = Clock()
    inbox: Inbox[str] = Inbox(clock)
    inbox.put("a", "a1", 5.0)
    inbox.put("b", "b1", 3.0)
    assert inbox.take(anything) is None
    assert inbox.next_start() == 3.0
    clock.now = 3.0
    assert drain(inbox) == ["b1"]
    assert inbox.next_start() == 5.0
    clock.now = 5.0
    assert drain(inbox) == ["a1"]
    assert inbox.next_start() is None


def test_clear_hands_everything_out() -> None:
    inbox: Inbox[str] = Inbox(Clock())
    inbox.put("a", "a1", 9.0)
    inbox.put("b", "b1", 0.0)
    assert sorted(inbox.clear()) == ["a1", "b1"]
    assert len(inbox) == 0
    assert inbox.take(anything) is None


@given(st.lists(st.sampled_from("abc")))
def test_fifo_within_each_host_and_nothing_lost(hosts: list[str]) -> None:
    inbox: Inbox[tuple[str, int]] = Inbox(Clock())
    entries = [(host, number) for number, host in enumerate(hosts)]
    for entry in entries:
        inbox.put(entry[0], entry, 0.0)
    taken = []
    while (got := inbox.take(anything)) is not None:
        taken.append(got)
    assert sorted(taken) == sorted(entries)
    for host in "abc":
        assert [entry for entry in taken if entry[0] == host] == [entry for entry in entries if entry[0] == host]
