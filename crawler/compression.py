"""Scrapy stops unpacking a body at ``DOWNLOAD_MAXSIZE``; this also forgets at once what was unpacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware as ScrapyHttpCompressionMiddleware
from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response


class HttpCompressionMiddleware(ScrapyHttpCompressionMiddleware):
    """Takes the place of Scrapy's own, with its settings (``COMPRESSION_ENABLED``, ``DOWNLOAD_MAXSIZE``).

    The error that ends the unpacking of a bomb holds, by its traceback, all that was unpacked until the garbage
    collector comes by: twenty bombs in a row took half a gigabyte.
    """

    def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        """Unpacks the body. Raises IgnoreRequest for one that is too large."""
        try:
            return super().process_response(request, response)
        except IgnoreRequest as error:
            reason = str(error)
        raise IgnoreRequest(reason)  # out here, where the first error is gone
