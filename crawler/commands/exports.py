"""``scrapy dedup export`` and ``import``: a memory as a file, or as one per shard, of which all are read or none."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from crawler.commands import figures
from crawler.errors import ConfigError, StoredDataError

if TYPE_CHECKING:
    from crawler.commands.seen import Seen


def export(shards: Sequence[Seen], name: str) -> None:
    """The memory goes into a file."""
    from crawler.dedup import transfer

    for number, (seen, path) in enumerate(zip(shards, _paths(shards, name), strict=True)):
        part = path.with_name(path.name + ".part")
        origin = transfer.Origin(seen.stored_version(), number, len(shards))
        try:
            with _terminated_as_interrupted(), part.open("wb") as file:
                values = transfer.export(seen.client, seen.base, file, origin)
            part.replace(path)
        except OSError as error:
            raise ConfigError("FILE", path, f"cannot be written ({error.strerror})") from None
        finally:
            part.unlink(missing_ok=True)
        print(f"{seen.name}: {values:,} values in {path} ({figures.size(path.stat().st_size)})")


def import_(shards: Sequence[Seen], name: str) -> None:
    """The memory comes from a file."""
    from crawler.dedup import transfer

    paths, version = _paths(shards, name), shards[0].version()
    with _terminated_as_interrupted(), ExitStack() as files, _numbered(shards):
        parts = []
        for number, (seen, path) in enumerate(zip(shards, paths, strict=True)):
            try:
                file = files.enter_context(path.open("rb"))
            except OSError as error:
                raise ConfigError("FILE", path, f"cannot be read ({error.strerror}){_why(path, len(shards))}") from None
            origin = transfer.Origin(version, number, len(shards))
            parts.append(transfer.Part(seen.client, seen.base, file, str(path), origin))
        try:
            values = transfer.load(parts)
        except OSError as error:
            raise ConfigError("FILE", name, f"cannot be read ({error.strerror}); nothing was imported") from None
        _take_over(shards)
    for seen, path, count in zip(shards, paths, values, strict=True):
        print(f"{seen.name}: {count:,} values from {path}")


def _why(path: Path, shards: int) -> str:
    """What a file that is missing has to do with shards."""
    if shards > 1:
        return f"; all {shards} shards need theirs, nothing was imported"
    other = path.with_name(f"{path.name}.0")
    return f"; {other.name} is of one of several shards: set FRONTIER_SHARDS as it was" if other.exists() else ""


def _paths(shards: Sequence[Seen], name: str) -> list[Path]:
    path = Path(name)
    if not path.name:
        raise ConfigError("FILE", name, "must be the name of a file")
    return [path] if len(shards) == 1 else [path.with_name(f"{path.name}.{number}") for number in range(len(shards))]


def _take_over(shards: Sequence[Seen]) -> None:
    """What was imported is what the settings ask for, or the mismatch shows now."""
    from crawler.dedup.memory import clear

    try:
        for seen in shards:
            seen.memory().prepare()
    except BaseException as error:
        for seen in shards:
            clear(seen.client, seen.base)
        if isinstance(error, StoredDataError | ConfigError):
            raise StoredDataError(f"{error}; nothing was imported") from None
        raise


@contextmanager
def _numbered(shards: Sequence[Seen]) -> Iterator[None]:
    """How many shards there are is kept beside what was seen; taken back if nothing is imported and no crawl began."""
    import redis

    home, key = shards[0].client, f"{shards[0].base}:shards"
    new = len(shards) > 1 and home.set(key, len(shards), nx=True)
    try:
        yield
    except BaseException:
        with suppress(redis.RedisError, OSError):
            if new and not shards[0].begun():
                home.delete(key)
        raise


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM (``docker stop``) cleans up what Ctrl-C would."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
