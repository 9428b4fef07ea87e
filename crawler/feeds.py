"""JSON-lines feeds that a crash cannot tear: every line is either whole in the file or not there.

Items lie in memory until :func:`flush_feeds` (the frontier calls it before it acknowledges requests), a full buffer
or the end. A process that dies in between leaves at most one torn line, the last. It is mended when a worker next opens
the file or another one in its folder; whoever holds a file's lock is alive, and a live worker's file is never touched.
Only the tail of a file is read.

Not safe: feeds with post-processing (a cut gzip stream is unreadable from the cut on), formats other than JSON lines (a
JSON array has no end before the close), and storages that upload at the close (S3, FTP).
"""

from __future__ import annotations

import fcntl
import io
import json
import logging
import os
import re
import stat
import time
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from scrapy import signals
from scrapy.extensions.feedexport import FileFeedStorage

from crawler import config
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from typing import Self

    from _typeshed import ReadableBuffer
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

JSON_LINES = frozenset({"jsonlines", "jsonl", "jl"})
BUFFER = 64 * 1024  # bytes kept in memory at most, unless the disk is full
BLOCK = 64 * 1024  # bytes read at a time when looking for the last line's beginning
LOCK_TRIES = 5  # a neighbour that mends our torn file holds the lock for well under LOCK_PAUSE
LOCK_PAUSE = 0.01  # seconds

_open_files: set[IO[bytes]] = set()
_folders: weakref.WeakKeyDictionary[Crawler, set[Path]] = weakref.WeakKeyDictionary()


def flush_feeds() -> None:
    """Push what all open feed files hold to the operating system: a kill -9 cannot take it back, a power cut can.

    Costs nothing when nothing was written. Raises OSError (a full disk) with nothing lost: what could not be written is
    kept and tried again at the next call, so acknowledge no request whose items may be among it.
    """
    errors = []
    for file in _open_files:
        try:
            file.flush()
        except OSError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """``%(worker)s`` and ``%(feed_dir)s`` for feed URIs, beside Scrapy's own parameters (``FEED_URI_PARAMS``)."""
    settings = spider.crawler.settings
    return {**params, "worker": _worker(settings), "feed_dir": _folder(settings)}


class LocalFeedStorage(FileFeedStorage):
    """Scrapy's storage for local files (it appends, unless ``overwrite``), with the safety described above."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        super().__init__(uri, feed_options=feed_options)
        options = feed_options or {}
        self.safe = options.get("format") in JSON_LINES and not options.get("postprocessing")

    @classmethod
    def from_crawler(cls, crawler: Crawler, uri: str, *, feed_options: dict[str, Any] | None = None) -> Self:
        """Also called with the unfilled URI when the crawl starts: then a useless ``FEED_DIR`` raises ConfigError."""
        if "%(feed_dir)s" in uri:
            _check_folder("FEED_DIR", _folder(crawler.settings))
        return cls(uri, feed_options=feed_options)

    def open(self, spider: Spider) -> IO[bytes]:
        """The file for the exporter."""
        path = Path(self.path)
        if self.safe and (path.is_file() or not path.exists()):
            file = cast("IO[bytes]", LinesFile(path, overwrite=self.write_mode == "wb"))
            # Only then are its neighbours workers' files; after `-o here.jsonl` they may be anybody's.
            if _worker(spider.crawler.settings) in path.name:
                _look_after(path.parent, spider.crawler)
        else:  # another format, or a device or pipe
            file = super().open(spider)
        _open_files.add(file)
        return file

    def store(self, file: IO[bytes]) -> None:
        """Write what is left in memory and close the file. One that cannot be written stays open for a later flush."""
        file.close()
        _open_files.discard(file)


class LinesFile(io.RawIOBase):
    """A locked, append-only file of lines, opened when first flushed.

    ``write`` never fails: a folder that cannot be written or a full disk is an error of ``flush``; the data is kept.
    If another process holds the file, the lines go to ``name.2.jsonl`` (and so on) beside it, with a warning.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        self._overwrite = overwrite
        self._pending = bytearray()
        self._descriptor: int | None = None
        self._complained = False

    def write(self, data: ReadableBuffer, /) -> int:
        """Take `data` (whole lines) into memory; a full buffer is written out."""
        size = memoryview(data).nbytes
        self._pending += data
        if len(self._pending) >= BUFFER:
            try:
                self.flush()
            except OSError as error:
                if not self._complained:
                    logger.warning("%s cannot be written, its items wait in memory: %s", self.path, error)
                self._complained = True
        return size

    def flush(self) -> None:
        """Hand everything to the operating system. Raises OSError; what is left is kept for the next call."""
        while self._pending:
            written = os.write(self.fileno(), self._pending)
            del self._pending[:written]
        self._complained = False

    def close(self) -> None:
        """Flush (a file without lines is created), unlock, close. After an OSError it is still open, with its data."""
        if self.closed:
            return
        descriptor = self.fileno()
        self.flush()
        super().close()
        os.close(descriptor)

    def writable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """The descriptor that holds the lock; opens the file if need be."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if self._descriptor is None:
            self._descriptor = self._open_free()
        return self._descriptor

    def _open_free(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1000):
            path = self.path if number == 1 else self.path.with_name(f"{self.path.stem}.{number}{self.path.suffix}")
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            if _lock_patiently(descriptor, path):
                if number > 1:
                    logger.warning(
                        "%s is written by another process: writing to %s (is WORKER_NAME used twice?)", self.path, path
                    )
                if self._overwrite:
                    os.ftruncate(descriptor, 0)
                mend(descriptor, path)
                return descriptor
            os.close(descriptor)
        raise OSError(f"{self.path}: 999 processes write to this file; give each its own WORKER_NAME")


def _check_folder(name: str, folder: str) -> None:
    if "://" in folder:  # not a local one
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(name, folder, f"cannot be made a folder ({error.strerror}): name another one") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(name, folder, "cannot be written by this user: change its permissions or name another one")


def _look_after(folder: Path, crawler: Crawler) -> None:
    """Mend `folder` now and, for workers that die meanwhile, at the end of `crawler`; once for all its files."""
    folders = _folders.setdefault(crawler, set())
    if folder not in folders:
        folders.add(folder)
        mend_folder(folder)
        crawler.signals.connect(lambda: mend_folder(folder), signals.feed_exporter_closed, weak=False)


def mend_folder(folder: Path) -> None:
    """Mend the last line of every JSON-lines file in `folder` that no living process has locked."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.suffix.lstrip(".") in JSON_LINES:
            try:
                _mend_abandoned(path)
            except OSError as error:  # gone meanwhile, or not ours to write: its owner's business
                logger.debug("%s left as it is: %s", path, error)


def _mend_abandoned(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        # Look first: locking an intact file, however briefly, could get in the way of a worker that is opening it.
        if _torn(descriptor) and _lock(descriptor):
            mend(descriptor, path)
    finally:
        os.close(descriptor)


def mend(descriptor: int, path: Path) -> None:
    """Make the locked file end with a newline: a torn last line is cut off, a whole one without newline is kept."""
    if not _torn(descriptor):
        return
    size = os.fstat(descriptor).st_size
    start, line = size, b""
    while start and b"\n" not in line:
        block = min(BLOCK, start)
        start -= block
        line = os.pread(descriptor, block, start) + line
    torn = line[line.rfind(b"\n") + 1 :]
    if _whole(torn):
        os.pwrite(descriptor, b"\n", size)
        return
    os.ftruncate(descriptor, size - len(torn))
    logger.warning(
        "%s: cut a torn last line of %d bytes; its request was not acknowledged and is repeated", path, len(torn)
    )


def _torn(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and status.st_size > 0 and os.pread(descriptor, 1, status.st_size - 1) != b"\n"


def _whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_patiently(descriptor: int, path: Path) -> bool:
    try:
        for _ in range(LOCK_TRIES):
            if _lock(descriptor):
                return True
            time.sleep(LOCK_PAUSE)  # only when a file is opened that another process has locked
    except OSError as error:
        logger.warning("%s cannot be locked (%s): workers must not share it", path, error)
        return True
    return False


def _folder(settings: BaseSettings) -> str:
    return os.path.expanduser(config.text(settings, "FEED_DIR", "items"))  # noqa: PTH111 (a Path would spoil s3://)


def _worker(settings: BaseSettings) -> str:
    return re.sub(r"[^\w.-]", "_", settings["WORKER_NAME"])
