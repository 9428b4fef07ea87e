"""Writing merged items: JSON lines, CSV, Parquet. What is half-written never has the file's name."""

from __future__ import annotations

import csv
import io
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from crawler.errors import ConfigError

Items = Iterable[dict[str, Any]]  # iterable more than once
BATCH = 10_000  # items of one Parquet row group


def jsonl(items: Items, file: IO[bytes]) -> None:
    """One JSON object per line, UTF-8."""
    for item in items:
        file.write(json.dumps(item, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


def csv_(items: Items, file: IO[bytes]) -> None:
    """A header with every field of every item (so the items are read twice), lists and objects as JSON."""
    fields = list(dict.fromkeys(itertools.chain.from_iterable(items)))
    text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(fields)
    for item in items:
        writer.writerow([_cell(item.get(field)) for field in fields])
    text.flush()
    text.detach()


def parquet(items: Items, file: IO[bytes]) -> None:
    """Row groups of 10,000 items; the types of all fields are found first, so the items are read twice."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ConfigError("--format", "parquet", "needs pyarrow: pip install pyarrow") from None
    try:
        schema = pa.schema([])
        for batch in _batches(items):
            # pyarrow takes the names of the fields from the first row only: it is given all of them
            fields = dict.fromkeys(itertools.chain.from_iterable(batch))
            found = pa.Table.from_pylist([dict.fromkeys(fields), *batch]).schema
            schema = pa.unify_schemas([schema, found], promote_options="permissive")
        with pq.ParquetWriter(file, schema) as writer:
            for batch in _batches(items):
                writer.write_table(pa.Table.from_pylist(batch, schema))
    except pa.ArrowException as error:
        what = " ".join(str(error).split())
        raise ConfigError("--format", "parquet", f"a field has values of several types ({what}); use jsonl") from None


FORMATS: dict[str, Callable[[Items, IO[bytes]], None]] = {"jsonl": jsonl, "csv": csv_, "parquet": parquet}


@contextmanager
def output(path: str, format_: str) -> Iterator[IO[bytes]]:
    """A file that appears under its name when all is written; without `path`, standard output. Raises ConfigError."""
    if not path:
        if format_ == "parquet":
            raise ConfigError("--format", format_, "needs a file: -o FILE.parquet")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = Path(f"{path}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise ConfigError("-o", path, f"cannot be written ({error.strerror})") from None
    finally:
        part.unlink(missing_ok=True)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _batches(items: Items) -> Iterator[list[dict[str, Any]]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch
