"""With ``IGNORE_SETTING=NAME`` and this folder in ``PYTHONPATH``, each Python process acts as if nobody had set NAME.

What a test, the environment, ``.env`` or ``-s`` says of it is dropped. ``crawler/settings.py`` keeps its default for a
variable that it reads; another line of it is dropped too. ``tests/e2e/test_ignored.py`` tells what this is for.
"""

from __future__ import annotations

import inspect
import os
from importlib import import_module
from types import ModuleType
from typing import Any

from scrapy.settings import BaseSettings

NAME = os.environ["IGNORE_SETTING"]
set_it, set_all = BaseSettings.set, BaseSettings.setmodule


def set_(self: BaseSettings, name: str, value: Any, priority: int | str = "project") -> None:
    """All but NAME; of NAME only what Scrapy says."""
    if name != NAME or priority in ("default", 0):
        set_it(self, name, value, priority)


def setmodule(self: BaseSettings, module: ModuleType | str, priority: int | str = "project") -> None:
    """The page, which names a variable that it reads in quotes: its value is the default, for `set_` hid the other."""
    set_all(self, module, priority)
    page = import_module(module) if isinstance(module, str) else module
    if hasattr(page, NAME) and f'"{NAME}"' in inspect.getsource(page):
        set_it(self, NAME, getattr(page, NAME), priority)


os.environ.pop(NAME, None)
BaseSettings.set = set_  # type: ignore[method-assign]
BaseSettings.setmodule = setmodule  # type: ignore[method-assign]
