"""Lua scripts of the frontier: loaded from the package, sent once, called by their hash."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as RedisTimeoutError

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

    async def replicated(
        self, client: Redis, keys: list[str], args: list[bytes | str], replicas: int, ms: int, *, strict: bool = False
    ) -> tuple[Any, int]:
        """Runs it and waits up to `ms` for replicas on the same connection: (reply, how many have it).

        `strict`: too few of them raise redis-py's TimeoutError.
        """
        for command, text in (("EVALSHA", self.sha), ("EVAL", self.text)):
            async with client.pipeline(transaction=False) as pipe:
                pipe.execute_command(command, text, len(keys), *keys, *args)
                pipe.execute_command("WAIT", replicas, ms)
                reply, count = await pipe.execute(raise_on_error=False)
            if not isinstance(reply, NoScriptError):
                break
        for answer in (reply, count):
            if isinstance(answer, Exception):
                raise answer
        if strict and count < replicas:
            raise RedisTimeoutError(f"{count} of {replicas} replicas answer")
        return reply, int(count)
