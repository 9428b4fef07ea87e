"""A spider and request classes, right and wrong ones, for the tests of payloads."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections import OrderedDict, namedtuple
from typing import Any
from zoneinfo import ZoneInfo

from scrapy import Request, Spider

URL = "https://site.example/catalogue/page-1.html?a=1"
BASE = dt.datetime(2026, 3, 4, 5, 6, 7, 89)  # noqa: DTZ001 (naive on purpose)
Point = namedtuple("Point", "x y")

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    2**63,
    2**64,
    -(2**200),
    1.5,
    float("inf"),
    "",
    "ü",
    "\ud800",
    b"",
    b"\xff",
    (),
    (1, (2, [3, (4,)])),
    {1, "a", (2, 3)},
    frozenset({b"x", None}),
    {1: "int", "1": "str", b"1": "bytes", None: 0, (1, 2): 3},
    OrderedDict([("b", 1), ("a", (2,))]),
    BASE,
    BASE.replace(tzinfo=dt.UTC),
    BASE.replace(fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    BASE.replace(tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30))),
    BASE.date(),
    BASE.time(),
    BASE.timetz().replace(tzinfo=dt.UTC),
    dt.timedelta(days=-3, microseconds=1),
    decimal.Decimal("-1.50"),
    decimal.Decimal("NaN"),
    uuid.UUID(int=7),
    1j,
    [[[[{"deep": [({"er": ()},)]}]]]],
]


class SlotRequest(Request):
    """A user's class that does it right."""

    attributes: tuple[str, ...] = (*Request.attributes, "render")

    def __init__(self, *args: Any, render: object = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.render = render
        self.meta.setdefault("slots", 1)


class ForgetfulRequest(Request):
    """Its attribute is not listed in `attributes`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.proxy_country = "de"


class SlottedForgetfulRequest(Request):
    __slots__ = ("country",)


class DeafRequest(Request):
    """Its constructor doesn't take what `attributes` promises."""

    attributes: tuple[str, ...] = (*Request.attributes, "render")
    render = 1

    def __init__(self, url: str, callback: Any = None) -> None:
        super().__init__(url, callback)


class UnlistedRequest(Request):
    pass


def undecorated(method: Any) -> Any:
    def wrapper(self: Any, *args: Any) -> Any:
        return method(self, *args)

    return wrapper


class BaseSpider(Spider):
    def parse(self, response: Any) -> None:
        pass

    def __private(self, response: Any) -> None:
        pass

    def base_private(self) -> Any:
        return self.__private


class MySpider(BaseSpider):
    name = "mine"
    request_classes = [SlotRequest, ForgetfulRequest, SlottedForgetfulRequest, DeafRequest]
    looked_at: list[str] = []

    def parse(self, response: Any) -> None:
        pass

    def parse_item(self, response: Any) -> None:
        pass

    alias = parse_item

    @undecorated
    def decorated(self, response: Any) -> None:
        pass

    @staticmethod
    def static(response: Any) -> None:
        pass

    @classmethod
    def of_class(cls, response: Any) -> None:
        pass

    def __secret(self, response: Any) -> None:
        pass

    def secret(self) -> Any:
        return self.__secret

    def overridden(self) -> Any:
        return super().parse

    @property
    def costly(self) -> Any:
        self.looked_at.append("costly")
        return self.parse

    def failed(self, failure: Any) -> None:
        pass


def facts(request: Request) -> dict[str, Any]:
    """Everything a request carries, types of nested values included."""
    return {name: (type(value), value) for name in request.attributes for value in [getattr(request, name)]}


def same(one: Any, other: Any) -> bool:
    """Equality that tells 1 from True from 1.0, lists from tuples, at any depth."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(k1, k2) and same(v1, v2) for (k1, v1), (k2, v2) in zip(one.items(), other.items(), strict=True)
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, (set, frozenset)):
        return {(type(v), v) for v in one} == {(type(v), v) for v in other}
    return bool(one == other)
