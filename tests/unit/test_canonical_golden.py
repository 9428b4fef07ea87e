"""Keys are a stored format. A failure here means: this change gives existing URLs other keys.

If that is wanted, raise ``FINGERPRINT_VERSION`` in ``crawler/canonical/version.py``, note it in the changelog under
"Stored data", and record the new values. If not, a library or a slip has changed them: put it back.
"""

from __future__ import annotations

from hashlib import blake2b

import pytest

from crawler.canonical import FINGERPRINT_VERSION, canonical_url
from crawler.canonical.keys import request_key, visit_key
from crawler.canonical.trackers import Entry, builtin

VERSION = "1"
TRACKERS = "209e05aca54b1b67"
URLS = [
    ("http://example.com/", "http://example.com/", "016a23fed5835900608a75686138ec93604596b8"),
    (
        "HTTP://User:Pw@Example.com:80/%7Ejo/./a%2fb;v=1?b=2&utm_source=x&a=%28c%20d%29&a=b#top",
        "http://User:Pw@example.com/~jo/a%2Fb;v=1?a=(c+d)&a=b&b=2",
        "01bbda59ee65062565bb5a82bd409ecf7568fdb0",
    ),
    (
        "https://münchen.example/straße?q=中文&_ga=1",
        "https://xn--mnchen-3ya.example/stra%C3%9Fe?q=%E4%B8%AD%E6%96%87",
        "015a2a6e7ed6a188c299d2aad9c5ae728b851cd0",
    ),
    (
        "https://www.youtube.com/watch?v=X&si=Y&t=10",
        "https://www.youtube.com/watch?t=10&v=X",
        "01de6d42d03710e41bdaae7c95a8827253d3a934",
    ),
    (
        "https://example.com/p;jsessionid=0123456789abcdef?CFID=1&CFTOKEN=2",
        "https://example.com/p",
        "017264236b612af9dc1abd480a9802b845d9dd8f",
    ),
    ("sftp://Host.example/a/../b?z=1&a=2", "sftp://host.example/b?z=1&a=2", "01cebeaefc37a75124a011056414a5276972eb1e"),
    ("data:,x", "data:,x", "01a7cceed4c7101c76b3c96ec79d1111900f7829"),
    ("http://a..b:99999/%7e", "http://a..b:99999/~", "01af924bc44221c717c67378f08f6a79b7e5510c"),
    (
        "http://192.168.0.1:8080/?%FF=%u0041&x",
        "http://192.168.0.1:8080/?%FF=%25u0041&x",
        "01024ff3b711a6f356dbf46107ed151790d4a481",
    ),
    (
        "http://example.com/?b&a&utm_medium",
        "http://example.com/?a&b&utm_medium",
        "016e5d3548599adf3c4f20c88edf91124a913bc1",
    ),
]


@pytest.mark.parametrize(("url", "canonical", "key"), URLS)
def test_urls(url: str, canonical: str, key: str) -> None:
    assert canonical_url(url) == canonical
    assert request_key("GET", canonical).hex() == key


def test_other_parts_of_a_request() -> None:
    posted = request_key("POST", "http://example.com/", b"a=1", [(b"accept", [b"x", b"y"])])
    assert posted.hex() == "01c9d3eff81cfb5570e9879a03a718e025ed3830"
    exact = request_key("GET", "http://example.com/", exact=True)
    assert exact.hex() == "012e0486fa5029a7ace98a97742cfd5b4b6f3554"
    returned = visit_key(request_key("GET", "http://example.com/"), 1)
    assert returned.hex() == "0149cf2e990fc929018a0e3359323336996c93cc"


def test_the_tracker_list_and_the_version_change_together() -> None:
    text = repr([_essence(item) for item in builtin()])
    assert (FINGERPRINT_VERSION, blake2b(text.encode(), digest_size=8).hexdigest()) == (VERSION, TRACKERS)


def _essence(item: Entry) -> tuple[object, ...]:
    """What of an entry can change a key."""
    tracker = item.tracker
    return (
        sorted(item.names), item.prefixes, item.pattern and item.pattern.pattern, item.hosts, item.except_hosts,
        item.group, item.path, tracker.value and tracker.value.pattern, sorted(tracker.together), tracker.except_words,
    )  # fmt: skip
