"""Callbacks and errbacks by name: what a payload says instead of code, and how a worker finds the method again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from scrapy.http.request import NO_CALLBACK

from crawler.frontier.values import PayloadError, Unserialisable, one_line

if TYPE_CHECKING:
    from scrapy import Spider


def name_of(function: Callable[..., Any], spider: Spider, role: str) -> str | bool:
    """The name under which `spider`, here and in every other worker, finds `function`; else :class:`Unserialisable`."""
    if function is NO_CALLBACK:
        return False
    name: str = getattr(function, "__name__", "")
    if getattr(spider, name, None) == function and hasattr(type(spider), name):
        return name
    for name in _names_of(getattr(function, "__func__", function), spider):
        if getattr(spider, name, None) == function:
            return name
    raise Unserialisable(f"{role} {_describe_function(function, spider)}; use a method of the spider")


def _names_of(function: object, spider: Spider) -> Iterator[str]:
    """Attribute names of the spider's classes that hold `function`: private (mangled), aliased, decorated ones."""
    for cls in type(spider).__mro__:
        for name, value in vars(cls).items():
            if getattr(value, "__func__", value) is function and not name.startswith("__"):
                yield name


def _describe_function(function: object, spider: Spider) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    owner = getattr(function, "__self__", None)
    if "<lambda>" in name:
        return f"{name} is a lambda"
    if owner is spider:
        return f"{name} is not what the spider's name {getattr(function, '__name__', '?')!r} stands for (overridden?)"
    if owner is not None:
        return f"{name} is a method of {type(owner).__name__}, not of this spider"
    if "<locals>" in name:
        return f"{name} is defined inside a function"
    return f"{name} is not a method"


def method_of(name: object, spider: Spider, role: str) -> Callable[..., Any] | None:
    """What a payload's `name` stands for. Raises :class:`PayloadError`."""
    if name is None:
        return None
    if name is False:
        return NO_CALLBACK
    if type(name) is not str:
        raise PayloadError(f"{role} is {type(name).__name__}, expected a method name")
    # Looked up on the class first: a property must not run because a payload says so.
    if name.startswith("__") or not callable(getattr(type(spider), name, None)):
        raise PayloadError(
            one_line(f"{role} {name!r}: spider {spider.name!r} has no such method (renamed since it was queued?)")
        )
    method: Callable[..., Any] = getattr(spider, name)
    return method
