"""Which classes of requests a payload may name: Scrapy's own four, and the spider's ``request_classes``.

No name in a payload is ever imported.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy.http import FormRequest, JsonRequest, Request, XmlRpcRequest

from crawler.frontier.values import PayloadError, Unserialisable, one_line, path_of

if TYPE_CHECKING:
    from scrapy import Spider

_SCRAPY_CLASSES: dict[int, type[Request]] = {1: FormRequest, 2: JsonRequest, 3: XmlRpcRequest}
_SCRAPY_CODES = {cls: code for code, cls in _SCRAPY_CLASSES.items()}
BASE_ATTRIBUTES = frozenset(Request.attributes)


def code_of(cls: type[Request], spider: Spider) -> int | str:
    """What a payload calls `cls`. Raises :class:`Unserialisable` for a class that `spider` does not list."""
    code = _SCRAPY_CODES.get(cls)
    return _listed_path(cls, spider) if code is None else code


def class_of(code: object, spider: Spider) -> type[Request]:
    """The class that a payload calls `code`. Raises :class:`PayloadError`."""
    cls = _SCRAPY_CLASSES.get(code) if type(code) is int else None
    if cls is None and isinstance(code, str):
        cls = _listed(spider).get(code)
    if cls is None:
        raise PayloadError(
            one_line(f"unknown request class {code!r}: not in request_classes of spider {spider.name!r}")
        )
    return cls


def _listed(spider: Spider) -> dict[str, type[Request]]:
    """The spider's own request classes by path."""
    classes = getattr(spider, "request_classes", None) or ()
    return {path_of(cls): cls for cls in classes if isinstance(cls, type) and issubclass(cls, Request)}


def _listed_path(cls: type[Request], spider: Spider) -> str:
    path = path_of(cls)
    if "<locals>" in path:
        raise Unserialisable(f"request class {path} is defined inside a function; move it to a module")
    if _listed(spider).get(path) is not cls:
        raise Unserialisable(
            f"request class {path} is not allowed; set request_classes = [{cls.__name__}] in {type(spider).__name__}"
        )
    unknown = _not_arguments(cls)  # type: ignore[arg-type]
    if unknown:
        raise Unserialisable(f"request class {path} lists {unknown!r} in attributes, but its __init__ does not take it")
    return path


@lru_cache(maxsize=256)
def _not_arguments(cls: type[Request]) -> str:
    """The first of the class's `attributes` that its constructor does not take by name, or ""."""
    parameters = inspect.signature(cls).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return ""
    names = {p.name for p in parameters}
    return next((name for name in cls.attributes if name not in names), "")


def check_attributes(request: Request) -> None:
    """Refuses instance attributes outside ``attributes``: they would be gone after the queue."""
    cls = type(request)
    names = set(getattr(request, "__dict__", ()))
    for base in cls.__mro__:
        if issubclass(base, Request) and not base.__module__.startswith("scrapy."):
            slots = base.__dict__.get("__slots__", ())
            slots = (slots,) if isinstance(slots, str) else slots
            names.update(name for name in slots if not name.startswith("__") and hasattr(request, name))
    for name in sorted(names):
        if name not in cls.attributes and name.removeprefix("_") not in cls.attributes:
            raise Unserialisable(
                f"attribute {name!r} of request class {path_of(cls)} would be lost; add it to the class's attributes"
            )
