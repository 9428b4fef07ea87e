"""Which finished requests count as failures, and the reason their dead letter gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from scrapy.spiders import CrawlSpider
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

    from crawler.frontier.ledger import Ledger

_LONGEST = 200  # characters of a reason


def describe(kind: str, error: BaseException) -> str:
    """One line: ``kind: ErrorType: text``."""
    text = " ".join(str(error).split())
    return f"{kind}: {type(error).__name__}{': ' if text else ''}{text}"[:_LONGEST]


class FailureReasons:
    """Tells from a download's outcome whether it finally failed, as Scrapy's own middlewares see it."""

    def __init__(self, settings: BaseSettings, spider: Spider) -> None:
        self._retried = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        if not settings.getbool("RETRY_ENABLED"):
            self._retried = set()
        self._allow_all = settings.getbool("HTTPERROR_ALLOW_ALL")
        self._allowed = {int(code) for code in settings.getlist("HTTPERROR_ALLOWED_CODES")}
        self._allowed |= set(getattr(spider, "handle_httpstatus_list", ()))
        self._spider = spider

    def of(self, request: Request, result: Response | Failure) -> str:
        """The reason, or "" for a success, a request refused on purpose, or one whose errback takes care."""
        if isinstance(result, Response):
            return self._of_response(request, result)
        if self._takes_care(request) or isinstance(result.value, IgnoreRequest):
            return ""
        assert result.value is not None
        return describe("download", result.value)

    def _of_response(self, request: Request, response: Response) -> str:
        """A status worth a retry that is still there after all retries; no other status is a failure."""
        if response.status not in self._retried or self._allow_all or response.status in self._allowed:
            return ""
        if request.meta.get("handle_httpstatus_all") or self._takes_care(request):
            return ""
        if response.status in request.meta.get("handle_httpstatus_list", ()):
            return ""
        return f"download: HTTP status {response.status} after all retries"

    def _takes_care(self, request: Request) -> bool:
        """Whether an errback of the author's gets the failure; CrawlSpider gives one of its own to every link."""
        if isinstance(self._spider, CrawlSpider) and request.errback == self._spider._errback:
            rule = dict(enumerate(self._spider._rules)).get(request.meta.get("rule", -1))
            return rule is not None and rule.errback is not None
        return request.errback is not None


class Failures:
    """Notes at a request's lease why it failed: its download, its callback or a pipeline, whichever was first."""

    def __init__(self, ledger: Ledger, reasons: FailureReasons) -> None:
        self._ledger, self._reasons = ledger, reasons

    def downloaded(self, request: Request, result: Response | Failure) -> None:
        """The scraper gets a response or the final failure of a download."""
        held = self._ledger.downloaded(request)
        if held is not None and not held.give:
            held.reason = self._reasons.of(request, result)

    def on_spider_error(self, failure: Failure, response: Any) -> None:
        """Signal handler: a callback raised."""
        self._note("callback", failure, response)

    def on_item_error(self, failure: Failure, response: Any) -> None:
        """Signal handler: a pipeline raised."""
        self._note("pipeline", failure, response)

    def _note(self, kind: str, failure: Failure, response: Any) -> None:
        assert failure.value is not None
        request = getattr(response, "request", None)
        held = self._ledger.by_request(request) if request is not None else None
        if held is not None and not held.reason:
            held.reason = describe(kind, failure.value)
