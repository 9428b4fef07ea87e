"""Items in a real PostgreSQL: each once, none lost while the server is away, refused ones alone in the dead letters."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from crawler.errors import ConfigError
from crawler.output import postgres
from crawler.output.postgres import PostgresPipeline, masked
from tests.support.pages import Pages
from tests.support.postgres import PostgresServer, server_program
from tests.support.project import project_env, run_scrapy, start_scrapy
from tests.support.server import wait_for
from tests.support.shops import quotes_site

asyncpg = pytest.importorskip("asyncpg")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    if server_program() is None:
        assert not os.environ.get("CI"), "CI installs a PostgreSQL server"
        pytest.skip("no PostgreSQL server here: apt install postgresql")
    with PostgresServer() as server:
        yield server


def rows(server: PostgresServer, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
    async def ask() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(server.url)
        try:
            return [tuple(row) for row in await connection.fetch(query, *arguments)]
        finally:
            await connection.close()

    return asyncio.run(ask())


async def opened(server: PostgresServer, table: str, spider: str = "shop") -> PostgresPipeline:
    pipeline = PostgresPipeline(server.url, table, spider)
    await pipeline.open_spider()
    return pipeline


def test_an_item_twice_is_one_row_and_the_later_one(server: PostgresServer) -> None:
    async def scenario() -> None:
        one, two = await asyncio.gather(opened(server, "twice"), opened(server, "twice"))  # both make the table
        await one.process_item({"fingerprint": "a-0", "price": 1})
        await asyncio.gather(*(two.process_item({"fingerprint": f"a-{n}", "price": 2}) for n in range(2000)))
        await asyncio.gather(*(two.process_item({"fingerprint": "a-1", "price": n}) for n in range(3)))
        for _ in range(2):
            await one.process_item({"from": "start, no fingerprint"})
        other = await opened(server, "twice", "news")
        await other.process_item({"fingerprint": "a-0", "price": 3})  # another spider's item of the same page
        for pipeline in (one, two, other):
            await pipeline.close_spider()

    asyncio.run(scenario())
    found = {
        key: json.loads(item) for key, item in rows(server, "SELECT fingerprint, item FROM twice WHERE spider='shop'")
    }
    assert len(found) == 2001
    assert (found["a-0"]["price"], found["a-1"]["price"]) == (2, 2)
    assert [json.loads(item)["price"] for (item,) in rows(server, "SELECT item FROM twice WHERE spider='news'")] == [3]


def test_a_refused_item_fails_alone(server: PostgresServer) -> None:
    async def scenario() -> list[Any]:
        pipeline = await opened(server, "refused")
        texts = ["good", "a zero \x00 byte", "half a pair \ud800", "good too"]
        done = await asyncio.gather(
            *(pipeline.process_item({"fingerprint": text, "text": text}) for text in texts), return_exceptions=True
        )
        await pipeline.close_spider()
        return done

    done = asyncio.run(scenario())
    assert [isinstance(result, Exception) for result in done] == [False, True, True, False]
    assert rows(server, "SELECT fingerprint FROM refused ORDER BY 1") == [("good",), ("good too",)]


def test_while_the_server_is_away_items_wait(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PAUSE", 0.05)

    async def scenario() -> None:
        pipeline = await opened(server, "away")
        await pipeline.process_item({"fingerprint": "before"})
        server.stop()
        waiting = [asyncio.create_task(pipeline.process_item({"fingerprint": f"during {n}"})) for n in range(3)]
        done, _ = await asyncio.wait(waiting, timeout=0.3)
        assert not done
        server.start()
        await asyncio.wait_for(asyncio.gather(*waiting), 30)
        await pipeline.close_spider()

    asyncio.run(scenario())
    assert len(rows(server, "SELECT 1 FROM away")) == 4


def test_a_crawl_whose_server_goes_away_loses_nothing(server: PostgresServer, redis_url: str, tmp_path: Path) -> None:
    env = project_env(
        redis_url, tmp_path, POSTGRES_URL=server.url, POSTGRES_TABLE="crawled", DOWNLOAD_DELAY="0.1", WORKER_NAME="w1"
    )
    with Pages(quotes_site(pages=8, per_page=5)) as site:
        worker = start_scrapy(["crawl", "quotes", "-a", f"start={site.url}/"], env, tmp_path / "log")
        wait_for(lambda: site.hits["/page/3/"], "three pages", seconds=30)
        server.stop()
        wait_for(lambda: "PostgreSQL is away" in (tmp_path / "log").read_text(), "the worker to notice", seconds=30)
        server.start()
        assert worker.wait(60) == 0, (tmp_path / "log").read_text()
    texts = {json.loads(item)["text"] for (item,) in rows(server, "SELECT item FROM crawled WHERE spider = 'quotes'")}
    assert len(texts) == 40
    log = (tmp_path / "log").read_text()
    assert (log.count("PostgreSQL is away"), log.count("Traceback"), "secret" in log) == (1, 0, False)


def test_no_server_at_the_start_is_one_line(redis_url: str, tmp_path: Path) -> None:
    env = project_env(redis_url, tmp_path, POSTGRES_URL="postgresql://u:secret@127.0.0.1:1/d")
    done = run_scrapy(["crawl", "quotes", "-a", "start=http://127.0.0.1:1/"], env)
    assert done.returncode == 1
    assert done.stderr.startswith("POSTGRES_URL=postgresql://u:***@127.0.0.1:1/d: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"POSTGRES_URL": "mysql://u:p@h/d"}, "POSTGRES_URL=mysql://u:***@h/d: must be postgresql://"),
        ({"POSTGRES_URL": "postgresql://h/d", "POSTGRES_TABLE": "a; b"}, "POSTGRES_TABLE=a; b: must be a name"),
        ({"POSTGRES_TABLE": "a b"}, "POSTGRES_TABLE=a b: must be a name"),
    ],
)
def test_a_bad_setting_is_one_line(settings: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{line}".replace("*", r"\*")):
        PostgresPipeline.from_crawler(get_crawler(settings_dict=settings))


def test_off_without_a_url() -> None:
    with pytest.raises(NotConfigured):
        PostgresPipeline.from_crawler(get_crawler(settings_dict={}))


def test_a_password_is_never_shown() -> None:
    assert masked("postgresql://u:pa/ss@h:5432/d") == "postgresql://u:***@h:5432/d"
