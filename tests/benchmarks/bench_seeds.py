"""A million seeds from a file: seconds, and the client's memory against that of a thousand seeds.
python -m tests.benchmarks.bench_seeds [LINES]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.project import PROJECT, clean_env, scrapy_command
from tests.support.server import RedisServer

_MEASURED = (
    "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
    "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
    "print(used.ru_maxrss, used.ru_utime + used.ru_stime); sys.exit(code)"
)


def write_seeds(path: Path, lines: int) -> None:
    """Plain URLs, every tenth a JSON object."""
    with path.open("w") as file:
        for number in range(lines):
            url = f"https://host{number % 5000}.example/catalogue/page-{number}.html?ref=feed"
            file.write(
                f'{{"url": "{url}", "priority": 1, "meta": {{"n": {number}}}}}\n' if number % 10 == 0 else f"{url}\n"
            )


def seed(server: RedisServer, path: Path) -> tuple[float, float, float]:
    """Seconds, seconds of CPU, and peak memory (MB) of ``scrapy seed feed --file PATH``."""
    command = [sys.executable, "-c", _MEASURED, *scrapy_command(["seed", "feed", "--file", str(path)])]
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=PROJECT, env=clean_env({"REDIS_URL": server.url}), capture_output=True, text=True, check=True
    )
    memory, cpu = done.stdout.splitlines()[-1].split()
    return time.perf_counter() - began, float(cpu), int(memory) * 1024 / 1e6


def measure(lines: int) -> dict[str, float]:
    """Both runs on a fresh server."""
    with tempfile.TemporaryDirectory() as folder, RedisServer(appendonly=True) as server, server.client() as client:
        few, many = Path(folder, "few.txt"), Path(folder, "many.txt")
        write_seeds(few, 1000)
        write_seeds(many, lines)
        small = seed(server, few)[2]
        client.flushall()
        seconds, cpu, large = seed(server, many)
        assert client.llen("feed:start_urls") == lines
        memory = client.info("memory")["used_memory"] / 1e6
    return {"seconds": seconds, "cpu": cpu, "client_mb": large, "client_mb_few": small, "server_mb": memory}


def test_a_million_seeds() -> None:
    found = measure(1_000_000)
    print(
        f"\n1M seeds: {found['seconds']:.1f} s ({found['cpu']:.1f} s of CPU), client {found['client_mb']:.0f} MB "
        f"(with 1000 seeds: {found['client_mb_few']:.0f} MB), server {found['server_mb']:.0f} MB"
    )
    assert found["cpu"] <= 30  # CPU time, so that a busy machine changes little
    assert found["client_mb"] <= found["client_mb_few"] + 20, "the client's memory grows with the file"
