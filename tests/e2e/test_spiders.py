"""The example spiders, run as a user runs them, against local pages shaped like the real sites."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py

from tests.support.pages import Answer, Pages
from tests.support.project import project_env, run_scrapy, start_scrapy
from tests.support.server import wait_for
from tests.support.shops import books_site, quotes_site

FAST = {"DOWNLOAD_DELAY": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": "8", "WORKER_NAME": "w1"}


def crawl(redis_url: str, folder: Path, spider: str, *args: str, **env: str) -> tuple[list[dict[str, Any]], str]:
    """The items that the spider gave, and its log."""
    done = run_scrapy(["crawl", spider, *args], project_env(redis_url, folder, **FAST, **env))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    feed = folder / "items" / spider / "w1.jsonl"
    return [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()], done.stderr


def test_quotes(redis_url: str, tmp_path: Path) -> None:
    with Pages(quotes_site(pages=3, per_page=4)) as site:
        items, _ = crawl(redis_url, tmp_path, "quotes", "-a", f"start={site.url}/")
    assert sorted(item["text"] for item in items) == sorted(f"“Saying {number} & more.”" for number in range(12))
    assert {item["author"] for item in items} == {f"Author {number}" for number in range(5)}
    assert all(item["tags"] == [f"n{item['text'].split()[1]}", "all"] for item in items)
    assert site.hits == {"/robots.txt": 1, "/": 1, "/page/2/": 1, "/page/3/": 1}


def test_one_process_without_redis(tmp_path: Path) -> None:
    env = {"FEED_DIR": str(tmp_path / "items"), **FAST, "FRONTIER": "memory", "REDIS_URL": "redis://127.0.0.1:1"}
    with Pages(quotes_site(pages=2, per_page=4)) as site:
        done = run_scrapy(["crawl", "quotes", "-a", f"start={site.url}/"], env)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert len((tmp_path / "items" / "quotes" / "w1.jsonl").read_text().splitlines()) == 8


def test_books(redis_url: str, tmp_path: Path) -> None:
    pages = books_site(books=12)
    with Pages(pages) as site:
        items, _ = crawl(redis_url, tmp_path, "books", "-a", f"start={site.url}/")
    items.sort(key=lambda item: item["price"])
    assert [item["title"] for item in items] == [f"Book {number}" for number in range(12)]
    book = items[7]
    assert len(book.pop("fingerprint")) > 20
    assert book == {
        "title": "Book 7", "price": 7.5, "currency": "£", "rating": 3, "in_stock": True, "category": "Poetry",
        "url": f"{site.url}/catalogue/book-7_7/index.html",
    }  # fmt: skip
    assert not items[6]["in_stock"]
    assert max(site.hits.values()) == 1, site.hits
    assert set(site.hits) == {*pages, "/robots.txt"}


@pytest.mark.slow
def test_rules_items_and_feeds_survive_a_kill(redis_url: str, tmp_path: Path) -> None:
    """Three workers crawl the shop, one is killed half-way: every book is in the feeds, every line is whole."""
    env = project_env(redis_url, tmp_path, **{**FAST, "FRONTIER_LEASE": "5", "DOWNLOAD_DELAY": "0.05"})
    with Pages(books_site(books=90, per_page=5)) as site:
        words = ["crawl", "books", "-a", f"start={site.url}/"]
        names = ["w1", "w2", "w3"]
        workers = [start_scrapy(words, {**env, "WORKER_NAME": name}, tmp_path / name) for name in names]
        feed = tmp_path / "items" / "books"
        wait_for(lambda: sum(path.read_bytes().count(b"\n") for path in feed.glob("*")) > 30, "30 books", seconds=60)
        workers[1].kill()
        assert [worker.wait(90) for worker in workers] == [0, -9, 0]
    lines = [json.loads(line) for path in feed.iterdir() for line in path.read_bytes().splitlines()]
    assert {item["title"] for item in lines} == {f"Book {number}" for number in range(90)}
    keys = {item["fingerprint"]: item["title"] for item in lines}
    assert len(keys) == 90  # repeats, if any, have the keys of the first time
    assert len(lines) <= 90 + 16


def test_what_a_rule_s_link_failed_with_is_kept(redis_url: str, tmp_path: Path) -> None:
    """CrawlSpider gives each link an errback that does nothing: the failure is still a dead letter."""
    pages = books_site(books=3)
    pages["/catalogue/book-0_0/index.html"] = Answer("broken", status=500)
    pages["/catalogue/book-1_1/index.html"] = "<html>another layout</html>"
    env = project_env(redis_url, tmp_path, **FAST)
    with Pages(pages) as site:
        done = run_scrapy(["crawl", "books", "-a", f"start={site.url}/"], env)
    assert done.returncode == 0, done.stderr
    dead = run_scrapy(["frontier", "dead", "books"], env).stdout
    assert "download: HTTP status 500 after all retries" in dead
    assert "callback: ValueError: could not convert string to float: ''" in dead
    assert len((tmp_path / "items" / "books" / "w1.jsonl").read_text().splitlines()) == 1


SITE: dict[str, str | Answer] = {
    "/": """<html><head><title> Start </title></head><body>
        <a href="/a">a</a> <a href="b?x=1&y=2">b</a> <a href="#top">top</a> <a href="/paper">no extension</a>
        <a href="/nothing">no type</a> <a href="/missing">gone</a> <a href="/away">away</a> <a href="">self</a>
        <a href="http://127.0.0.1:1/other-port">other port</a> <a href="http://localhost/">other host</a>
        <a href="http://127.0.0.1:99999/">bad port</a> <a href="http://[bad/">bad host</a> <a>none</a>
        <a href="mailto:x@y.z">mail</a> <a href="javascript:void(0)">js</a> <a href="ftp://127.0.0.1/f">ftp</a>
        </body></html>""",
    "/a": "<title>A</title><a href='/'>back</a><a href='/c'>c</a>",
    "/b?x=1&y=2": "no markup at all",
    "/c": Answer("<title>\xe9t\xe9</title>".encode("latin-1"), "text/html; charset=iso-8859-1"),
    "/paper": Answer(b"%PDF-1.4 \x00\xff<a href='/never'>", "application/pdf"),
    "/nothing": Answer(b"\x00\x01\x02", type=None),
    "/away": Answer(status=302, headers={"Location": "http://localhost:1/away"}),
}


def test_site(redis_url: str, tmp_path: Path) -> None:
    with Pages(SITE) as site:
        items, log = crawl(redis_url, tmp_path, "site", "-a", f"start={site.url}/")
    found = {item["url"].removeprefix(site.url): item for item in items}
    assert set(found) == {"/", "/a", "/b?x=1&y=2", "/c", "/paper", "/nothing"}
    assert (found["/"]["title"], found["/c"]["title"], found["/paper"]["title"]) == ("Start", "été", None)
    assert (found["/"]["depth"], found["/a"]["depth"], found["/c"]["depth"]) == (0, 1, 2)
    assert (found["/paper"]["type"], found["/nothing"]["type"]) == ("application/pdf", "")
    assert {item["status"] for item in items} == {200}
    assert len({item["fingerprint"] for item in items}) == len(items)
    assert "/never" not in site.hits
    assert "ERROR" not in log


def test_site_with_several_starts(redis_url: str, tmp_path: Path) -> None:
    with Pages({"/x,1": "<a href='/y'>"}) as one, Pages({"/": "two"}, "127.0.0.2") as two:
        items, _ = crawl(redis_url, tmp_path, "site", "-a", f"start={one.url}/x,1,{two.url}/")
    assert {item["url"] for item in items} == {f"{one.url}/x,1", f"{two.url}/"}


def test_a_start_that_leads_to_another_site_says_so(redis_url: str, tmp_path: Path) -> None:
    with Pages({"/": "<a href='/more'>"}, "127.0.0.2") as other, Pages({}) as site:
        site.pages["/"] = Answer(status=301, headers={"Location": f"{other.url}/"})
        items, log = crawl(redis_url, tmp_path, "site", "-a", f"start={site.url}/")
    assert [item["url"] for item in items] == [f"{other.url}/"]
    assert f"The start leads to another site: -a start={other.url}/ crawls that one" in log
    assert "/more" not in other.hits


@pytest.mark.parametrize("spider", ["site", "sitemap"])
@pytest.mark.parametrize(
    ("args", "line"),
    [
        ([], "start=: say where to begin: -a start=https://example.com/"),
        (["-a", "start=example.com"], "start=example.com: must be a URL with http:// or https://"),
    ],
)
def test_no_usable_start_is_one_line(redis_url: str, tmp_path: Path, spider: str, args: list[str], line: str) -> None:
    done = run_scrapy(["crawl", spider, *args], project_env(redis_url, tmp_path))
    assert done.returncode != 0
    assert line in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("start", ["/", "/robots.txt", "/index.xml"])
def test_sitemap(redis_url: str, tmp_path: Path, start: str) -> None:
    with Pages({}) as site:
        urls = "".join(f"<url><loc>{site.url}/page{number}</loc></url>" for number in range(3))
        xmlns = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        pages = gzip.compress(f"<urlset {xmlns}>{urls}</urlset>".encode())
        site.pages = {
            "/robots.txt": Answer(f"User-agent: *\nDisallow: /page2\nSitemap: {site.url}/index.xml\n", "text/plain"),
            "/index.xml": Answer(
                f"<sitemapindex {xmlns}><sitemap><loc>{site.url}/pages.xml.gz</loc></sitemap></sitemapindex>",
                "text/xml",
            ),
            "/pages.xml.gz": Answer(pages, "application/gzip"),
            **{f"/page{number}": f"<title>{number}</title><a href='/unlisted'>" for number in range(3)},
        }
        items, _ = crawl(redis_url, tmp_path, "sitemap", "-a", f"start={site.url}{start}")
    assert sorted(item["title"] for item in items) == ["0", "1"]  # page 2 is disallowed
    assert "/unlisted" not in site.hits


def test_user_agent_names_bot_and_contact_and_robots_txt_is_read_for_the_bot(redis_url: str, tmp_path: Path) -> None:
    rules = Answer("User-agent: *\nDisallow: /a\n\nUser-agent: mybot\nDisallow: /b\n", "text/plain")
    links = "<a href='/a'>for mybot</a><a href='/b'>not for mybot</a>"
    with Pages({"/": links, "/a": "a", "/b": "b", "/robots.txt": rules}) as site:
        crawl(
            redis_url, tmp_path, "site", "-a", f"start={site.url}/", BOT_NAME="mybot", CONTACT="https://example.org/bot"
        )
    assert {headers["user-agent"] for headers in site.requests} == {"mybot/1.0 (+https://example.org/bot)"}
    assert site.hits == {"/robots.txt": 1, "/": 1, "/a": 1}


def test_feed_waits_for_seeds_and_takes_them_while_it_works(
    redis: redis_py.Redis, redis_url: str, tmp_path: Path
) -> None:
    env = project_env(redis_url, tmp_path, **FAST)
    pages: dict[str, str | Answer] = {f"/{number}": f"<title>{number}</title>" for number in range(4)}
    with Pages(pages) as site:
        redis.lpush("feed:start_urls", f"{site.url}/0")
        process = start_scrapy(["crawl", "feed"], env, tmp_path / "log")
        wait_for(lambda: site.hits["/0"], "the seed that was there before", seconds=30)
        redis.lpush("feed:start_urls", json.dumps({"url": f"{site.url}/1", "headers": {"X-Job": "7"}}))
        wait_for(lambda: site.hits["/1"], "the seed that came later", seconds=30)
        done = run_scrapy(["seed", "feed", f"{site.url}/2", f"{site.url}/3"], env)
        assert done.returncode == 0, done.stderr
        wait_for(lambda: site.hits["/2"] and site.hits["/3"], "the seeds of the command", seconds=30)
        process.terminate()  # it would wait for more
        assert process.wait(30) == 0
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log, log
    feed = (tmp_path / "items" / "feed" / "w1.jsonl").read_text()
    assert sorted(json.loads(line)["title"] for line in feed.splitlines()) == ["0", "1", "2", "3"]
    assert [headers["x-job"] for headers in site.requests if "x-job" in headers] == ["7"]
