"""Items in PostgreSQL, each once: a row per spider and fingerprint, written again when the page was fetched again.

    CREATE TABLE items (
      spider text, fingerprint text, item jsonb NOT NULL, updated timestamptz NOT NULL DEFAULT now(),
      PRIMARY KEY (spider, fingerprint)
    )

An item is through this pipeline when its row is committed, and a request is acknowledged when its items are: a crash
loses none. Items that are waiting go in one statement. While the server is away they wait, their requests stay
leased, and the worker begins nothing new beyond what it may hold; nothing blocks the reactor.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy.exceptions import NotConfigured
from scrapy.utils.serialize import ScrapyJSONEncoder

from crawler import config
from crawler.errors import ConfigError, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Self

    import asyncpg
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

BATCH = 500  # rows of one statement at most
PAUSE, PAUSE_MAX = 0.5, 30.0  # seconds between two tries to reach the server
TIMEOUT = 10.0  # seconds to connect
STATEMENT_TIMEOUT = 60.0  # seconds

CREATE = """CREATE TABLE IF NOT EXISTS {table} (spider text, fingerprint text, item jsonb NOT NULL,
updated timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (spider, fingerprint))"""
UPSERT = """INSERT INTO {table} (spider, fingerprint, item)
SELECT $1, fingerprint, item::jsonb FROM unnest($2::text[], $3::text[]) AS rows (fingerprint, item)
ON CONFLICT (spider, fingerprint) DO UPDATE SET item = excluded.item, updated = now()"""


class PostgresPipeline:
    """Writes to `table` of the server at `url`. Needs asyncpg.

    An item that the server refuses (a text with a zero byte) is a failed item: its request goes to the dead letters.
    """

    def __init__(self, url: str, table: str, spider: str) -> None:
        self.url, self.table, self.spider = url, table, spider
        self._waiting: dict[str, tuple[str, asyncio.Future[None]]] = {}  # fingerprint → item as JSON, its commit
        self._connection: asyncpg.Connection | None = None
        self._writer: asyncio.Task[None] | None = None
        self._away = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured without ``POSTGRES_URL``, ConfigError for what cannot be used."""
        table = config.text(crawler.settings, "POSTGRES_TABLE", "items")
        if not re.fullmatch(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?", table):
            raise ConfigError("POSTGRES_TABLE", table, "must be a name of a-z 0-9 _, or SCHEMA.NAME")
        url = config.text(crawler.settings, "POSTGRES_URL")
        if not url:
            raise NotConfigured
        if not re.match(r"postgres(ql)?://", url):
            raise ConfigError("POSTGRES_URL", masked(url), "must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
        try:
            import asyncpg  # noqa: F401 (an optional extra)
        except ImportError:
            raise ConfigError("POSTGRES_URL", masked(url), "needs asyncpg: pip install asyncpg") from None
        assert crawler.spider is not None
        return cls(url, table, crawler.spider.name)

    async def open_spider(self) -> None:
        """Connects, and makes the table if there is none. Raises ServerError."""
        import asyncpg

        try:
            connection = await self._connect()
            if await connection.fetchval("SELECT to_regclass($1)", self.table) is None:
                # Two workers at once: one of them is told that the table, or its type, is there.
                with contextlib.suppress(asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError):
                    await connection.execute(CREATE.format(table=self.table))
        except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ServerError(
                f"POSTGRES_URL={masked(self.url)}: cannot store items ({reason}): correct it, or start the server"
            ) from None

    async def process_item(self, item: Any) -> Any:
        """Returns when the item's row is committed."""
        fields = ItemAdapter(item).asdict()
        text = json.dumps(fields, cls=ScrapyJSONEncoder, ensure_ascii=False)
        # What start() yields has no fingerprint: the same content is the same item.
        key = str(fields.get("fingerprint") or f"content:{sha256(text.encode('utf-8', 'replace')).hexdigest()}")
        commit = self._waiting[key][1] if key in self._waiting else asyncio.get_running_loop().create_future()
        self._waiting[key] = (text, commit)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        await asyncio.shield(commit)
        return item

    async def close_spider(self) -> None:
        """Gives up what still waits (its requests are given back already) and closes the connection."""
        if self._writer is not None:
            self._writer.cancel()
        if self._connection is not None:
            self._connection.terminate()

    async def _write(self) -> None:
        """Writes while something waits."""
        while self._waiting:
            batch = dict(list(self._waiting.items())[:BATCH])
            for key in batch:
                del self._waiting[key]
            await self._commit(batch)

    async def _commit(self, batch: dict[str, tuple[str, asyncio.Future[None]]]) -> None:
        """Stores `batch`; when the server refuses it because of one item or more, the others are stored alone."""
        try:
            await self._store({key: text for key, (text, _) in batch.items()})
        except Exception as error:  # noqa: BLE001 (whatever it is, it belongs to an item)
            if len(batch) == 1:
                _settle(batch, error)
            else:
                for key, row in batch.items():
                    await self._commit({key: row})
        else:
            _settle(batch, None)

    async def _store(self, rows: dict[str, str]) -> None:
        """One statement; tried again for as long as the server cannot be reached."""
        statement = UPSERT.format(table=self.table)
        await self._patiently(
            lambda connection: connection.execute(
                statement, self.spider, list(rows), list(rows.values()), timeout=STATEMENT_TIMEOUT
            )
        )

    async def _patiently(self, do: Callable[[asyncpg.Connection], Coroutine[Any, Any, object]]) -> None:
        import asyncpg

        pause = PAUSE
        while True:
            try:
                await do(await self._connect())
            except (OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError,
                    asyncpg.InsufficientResourcesError, asyncpg.InterfaceError) as error:  # fmt: skip
                if isinstance(error, asyncpg.InterfaceError) and self._connection and not self._connection.is_closed():
                    raise  # a value that cannot be sent
                if not self._away:
                    reason = str(error) or type(error).__name__
                    logger.warning("PostgreSQL is away (%s): items and their requests wait", reason)
                self._away = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_MAX)
            else:
                if self._away:
                    logger.info("PostgreSQL is back")
                self._away = False
                return

    async def _connect(self) -> asyncpg.Connection:
        import asyncpg

        if self._connection is None or self._connection.is_closed():
            # No named prepared statements: they would not survive a connection pooler such as PgBouncer.
            self._connection = await asyncpg.connect(self.url, timeout=TIMEOUT, statement_cache_size=0)
        return self._connection


def masked(url: str) -> str:
    """`url` without its password."""
    return re.sub(r"(//[^/@:]*):.*@", r"\1:***@", url)


def _settle(batch: dict[str, tuple[str, asyncio.Future[None]]], error: Exception | None) -> None:
    for _, commit in batch.values():
        if commit.done():  # its item was given up
            continue
        if error is None:
            commit.set_result(None)
        else:
            commit.set_exception(error)
