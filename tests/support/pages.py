"""Web pages from a dict, on a real HTTP server: for tests that want to say exactly what a site answers."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What the server sends for a path. A page given as text is an Answer of status 200 and type text/html."""

    body: bytes | str = b""
    type: str | None = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Pages:
    """Serves `pages` (path with query → text or Answer) on `port` while the context lasts; 404 for all else."""

    def __init__(self, pages: dict[str, str | Answer], host: str = "127.0.0.1", port: int = 0) -> None:
        self.pages, self.host = pages, host
        self.hits: Counter[str] = Counter()
        self.requests: list[dict[str, str]] = []  # headers of each request, names in lower case
        self._server = ThreadingHTTPServer((host, port), self._handler())

    @property
    def url(self) -> str:
        """``http://HOST:PORT``, without a slash."""
        return f"http://{self.host}:{self._server.server_port}"

    def __enter__(self) -> Pages:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> Answer:
        """What `path` gets."""
        page = self.pages.get(path, Answer("not here", status=404))
        return Answer(page) if isinstance(page, str) else page

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages.hits[self.path] += 1
                pages.requests.append({name.lower(): value for name, value in self.headers.items()})
                answer = pages.answer(self.path)
                body = answer.body.encode() if isinstance(answer.body, str) else answer.body
                self.send_response(answer.status)
                if answer.type:
                    self.send_header("Content-Type", answer.type)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
