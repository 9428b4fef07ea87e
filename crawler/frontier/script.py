"""Lua scripts of the frontier: loaded from the package, sent once, called by their hash."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

_INCLUDE = re.compile(r"^--#include (\w+)$", re.MULTILINE)


def source(name: str) -> str:
    """Text of ``crawler/frontier/lua/NAME.lua``; a line ``--#include OTHER`` stands for the text of that file."""
    text = (resources.files("crawler.frontier") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: source(match[1]), text)


class Script:
    """One Lua script; ``await script(client, keys, args)`` runs it in one round trip."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, client: Redis, keys: list[str], args: list[bytes | str]) -> Any:
        """Runs it; sends the text only when the server does not know the hash."""
        try:
            return await client.evalsha(self.sha, len(keys), *keys, *args)
        except NoScriptError:  # a fresh or restarted server: nothing was executed
            return await client.eval(self.text, len(keys), *keys, *args)
