"""Where a spider begins: the argument ``-a start=URL[,URL...]``, and the sitemap of a site."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

from w3lib.url import safe_url_string

from crawler.errors import ConfigError

_EXAMPLE = "-a start=https://example.com/"


def start_urls(start: str) -> list[str]:
    """The URLs in `start`, separated by commas or white space. Raises ConfigError for none, or one that is no URL.

    >>> start_urls("https://a.example/,https://b.example/")
    ['https://a.example/', 'https://b.example/']
    """
    urls = [url.strip(",") for url in re.split(r"\s+|,(?=https?://)", start) if url.strip(",")]
    if not urls:
        raise ConfigError("start", start, f"say where to begin: {_EXAMPLE} (more than one: separate them by commas)")
    for url in urls:
        if not is_web(url):
            raise ConfigError("start", url, f"must be a URL with http:// or https://, as in {_EXAMPLE}")
    return [safe_url_string(url) for url in urls]  # as links will be written: punycode, escapes


def sitemap_url(url: str) -> str:
    """`url` itself if it names a sitemap or a robots.txt, else the robots.txt of its host (which names sitemaps).

    >>> sitemap_url("https://a.example/shop")
    'https://a.example/robots.txt'
    """
    named = urlsplit(url).path.endswith((".xml", ".xml.gz", ".txt"))
    return url if named else urljoin(url, "/robots.txt")


def is_web(url: str) -> bool:
    """Whether `url` is one URL with http:// or https:// and a host.

    >>> is_web("https://a.example/"), is_web("ftp://a.example/"), is_web("https://a.example/ b")
    (True, False, False)
    """
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0 and " " not in url
    except ValueError:
        return False
