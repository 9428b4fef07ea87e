"""The compose file for real: build it, crawl the demo's website with three workers, kill one, stop all, compare.

``python -m tests.e2e.compose`` with any Docker engine that ``docker`` reaches. BUILD_NETWORK=host lets the build use
the host's network where containers have none. Everything runs under a project name of its own, removed at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.site.report import Report

ROOT = Path(__file__).parents[2]
PAGES = 300
CONCURRENCY = 16  # the default of CONCURRENT_REQUESTS: as many as a killed worker may have had in flight

# What the test adds to the compose file: where the build finds the network, and a data folder that Redis's user owns,
# which the official image has and a stand-in made from a distribution's packages has not.
OVERRIDE = """
services:
  redis:
    image: {project}-redis
    build:
      dockerfile_inline: |
        FROM redis:7-alpine
        RUN mkdir -p /srv/data && chown redis /srv/data
      network: {network}
    volumes: ["data:/srv/data"]
    command: [redis-server, /etc/redis.conf, --dir, /srv/data, --requirepass, "{password}"]
  worker: {{build: {{network: {network}}}}}
  prometheus:
    command: [--config.file=/etc/prometheus/prometheus.yml, --storage.tsdb.path=/tmp/data]
  site: {{build: {{network: {network}}}}}
volumes:
  data: {{}}
"""


class Stack:
    """One project of docker compose with its own environment, gone with :meth:`close`."""

    def __init__(self, folder: Path) -> None:
        self.project, self.password = f"crawlertest{os.getpid()}", "s3cret"
        self.env = {k: v for k, v in os.environ.items() if k.startswith(("DOCKER_", "PATH", "HOME", "BUILDKIT"))}
        self.env |= {"REDIS_PASSWORD": self.password, "COMPOSE_PROJECT_NAME": self.project, "DEMO_PAGES": str(PAGES)}
        override = folder / "override.yml"
        network = os.environ.get("BUILD_NETWORK", "default")
        override.write_text(OVERRIDE.format(project=self.project, password=self.password, network=network))
        self.files = ["--env-file", "deploy/demo.env", "-f", "docker-compose.yml", "-f", str(override)]

    def compose(self, *args: str, timeout: float = 600, env: dict[str, str] | None = None) -> str:
        """Output of ``docker compose ARGS``; AssertionError with its messages if it fails."""
        return self._run(["docker", "compose", *self.files, *args], timeout, env)

    def docker(self, *args: str, timeout: float = 120) -> str:
        """Output of ``docker ARGS``."""
        return self._run(["docker", *args], timeout)

    def _run(self, command: Sequence[str], timeout: float, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            command, cwd=ROOT, env=self.env | (env or {}), capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def containers(self, service: str) -> list[dict[str, Any]]:
        """What ``docker inspect`` says of a service's containers, running or not."""
        ids = self.compose("ps", "--all", "--quiet", service).split()
        return list(json.loads(self.docker("inspect", *ids))) if ids else []

    def site(self, path: str, host: str = "127.0.0.1:8000") -> Any:
        """A document of the demo's website, or of another server that its container reaches."""
        code = f"import urllib.request as r; print(r.urlopen('http://{host}/{path}').read().decode())"
        return json.loads(self.compose("exec", "-T", "site", "python", "-c", code))

    def scrapes(self, workers: int) -> bool:
        """Whether Prometheus reaches exactly so many workers."""
        try:
            found = self.site("api/v1/query?query=sum(up%7Bjob=%22crawler%22%7D)", host="prometheus:9090")["data"][
                "result"
            ]
        except AssertionError:  # it is still starting
            return False
        return bool(found) and int(found[0]["value"][1]) == workers

    def healthy(self) -> bool:
        """Whether every worker says that it is alive and exchanging."""
        return {worker["State"]["Health"]["Status"] for worker in self.containers("worker")} == {"healthy"}

    def report(self) -> Report:
        """What the website saw so far."""
        return Report.of(self.site("__truth__"), self.site("__hits__"))

    def wait(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        """Until `condition` holds; AssertionError after `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s\n{self.logs()}"
            time.sleep(0.5)

    def wait_for_the_end(self, seconds: float = 240) -> None:
        """Until every worker has ended by itself."""
        self.wait(
            "the workers end",
            lambda: all(worker["State"]["Status"] == "exited" for worker in self.containers("worker")),
            seconds,
        )
        assert {worker["State"]["ExitCode"] for worker in self.containers("worker")} == {0}, self.logs()

    def logs(self) -> str:
        """The last lines of everybody."""
        return self.compose("logs", "--no-color", "--tail", "30")

    def items(self, folder: Path) -> dict[str, list[dict[str, Any]]]:
        """Item files on the volume: file name → items."""
        self.docker("cp", f"{self.containers('worker')[0]['Id']}:/app/items", str(folder))
        files = sorted(folder.rglob("*.jsonl"))
        return {file.name: [json.loads(line) for line in file.read_text().splitlines()] for file in files}

    def close(self) -> None:
        """Remove containers, networks, volumes and the images built here."""
        profiles = ["--profile", "demo", "--profile", "seed", "--profile", "monitoring"]
        self.compose(*profiles, "down", "--volumes", "--rmi", "local", "--timeout", "1", "--remove-orphans")
        images = self.docker("images", "--quiet", f"{self.project}-*").split()
        if images:
            self.docker("rmi", "--force", *set(images))


def check_the_file_is_valid(stack: Stack, _: Path) -> None:
    for profile in ("demo", "seed", "monitoring"):
        stack.compose("--profile", profile, "config", "--quiet")


def check_the_password_is_required(stack: Stack, _: Path) -> None:
    plain = {k: v for k, v in stack.env.items() if k != "REDIS_PASSWORD"}
    command = ["docker", "compose", "--env-file", "deploy/demo.env", "config", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "REDIS_PASSWORD" in done.stderr
    assert ".env" in done.stderr


def check_replicas_without_scale(stack: Stack, _: Path) -> None:
    for workers in ("", "5"):
        text = stack.compose("config", "--format", "json", env={"WORKERS": workers})
        assert json.loads(text)["services"]["worker"]["deploy"]["replicas"] == int(workers or 2)


def check_the_image_builds(stack: Stack, _: Path) -> None:
    stack.compose("build", timeout=900)
    image = f"{stack.project}-worker"
    print(f"    image: {int(stack.docker('image', 'inspect', '-f', '{{.Size}}', image)) / 1e6:.0f} MB")
    tools = (
        "for tool in gcc cc make g++; do ! command -v $tool || exit 1; done; ! test -e /venv/bin/pip; ! touch /app/x"
    )
    stack.docker("run", "--rm", "--entrypoint", "sh", image, "-c", tools)


def check_three_workers_crawl_to_the_end(stack: Stack, folder: Path) -> None:
    stack.compose("up", "--detach", "--scale", "worker=3")
    started = time.monotonic()
    stack.wait_for_the_end()
    report = stack.report()
    twice = {page: times for page, times in report.times.items() if times > 1}
    items = {name: len(found) for name, found in stack.items(folder / "items").items()}
    print(
        f"    {report.pages} pages, {len(report.missed)} missed, {len(twice)} fetched twice, items per worker:", end=" "
    )
    print(f"{list(items.values())}, ended within {time.monotonic() - started:.0f} s")
    assert report.pages == PAGES
    assert not report.missed
    assert not twice
    assert sum(items.values()) == PAGES
    assert len(items) == 3, f"not every worker worked: {items}"


def check_the_containers_are_hardened(stack: Stack, _: Path) -> None:
    for service in ("worker", "redis", "site"):
        for container in stack.containers(service):
            user, host = container["Config"]["User"], container["HostConfig"]
            assert user not in ("", "0", "root"), f"{service} runs as {user or 'root'}"
            assert host["ReadonlyRootfs"], service
            assert "no-new-privileges:true" in host["SecurityOpt"], service
            assert host["CapDrop"] == ["ALL"], service
            assert not host["PortBindings"], f"{service} publishes {host['PortBindings']}"
    workers = stack.containers("worker")
    assert all(worker["HostConfig"]["Init"] and worker["HostConfig"]["Memory"] for worker in workers)
    assert all(worker["HostConfig"]["RestartPolicy"]["Name"] == "on-failure" for worker in workers)


def check_redis_is_on_a_private_network(stack: Stack, _: Path) -> None:
    (redis,) = stack.containers("redis")
    (network,) = redis["NetworkSettings"]["Networks"]
    assert json.loads(stack.docker("network", "inspect", network))[0]["Internal"]
    assert "NOAUTH" in stack.compose("exec", "-T", "-e", "REDISCLI_AUTH=", "redis", "redis-cli", "dbsize")
    for setting, value in (("maxmemory-policy", "noeviction"), ("appendonly", "yes")):
        assert value in stack.compose("exec", "-T", "redis", "redis-cli", "config", "get", setting).split()


def check_a_finished_run_is_not_begun_again(stack: Stack, _: Path) -> None:
    before = len(stack.report().hits)
    stack.compose("up", "--detach", "--scale", "worker=3")
    stack.wait_for_the_end(60)
    assert len(stack.report().hits) == before
    log = stack.compose("logs", "--no-color", "--no-log-prefix", "--tail", "20", "worker")
    assert "FRONTIER_RUN" in log, log


def check_a_killed_worker_loses_nothing(stack: Stack, folder: Path) -> None:
    stack.site("__reset__")
    stack.compose("up", "--detach", "--scale", "worker=3", env={"FRONTIER_RUN": "two", "REDIS_KEY_PREFIX": "two"})
    stack.wait("a third is crawled", lambda: len(stack.report().fetched) > PAGES // 3, 60)
    victim = stack.containers("worker")[1]
    assert victim["State"]["Running"], "the crawl ended before the kill: more pages are needed"
    # Every process but the container's init: which then ends with the code of a killed child.
    subprocess.run(["docker", "exec", victim["Id"], "sh", "-c", "kill -9 -1"], env=stack.env, check=False)
    stack.wait_for_the_end()
    report = stack.report()
    repeats = sum(times - 1 for times in report.times.values())
    restarts = json.loads(stack.docker("inspect", victim["Id"]))[0]["RestartCount"]
    items = [item["url"] for found in stack.items(folder / "after").values() for item in found]
    print(f"    {len(report.missed)} missed, {repeats} fetched twice, restarted {restarts} time(s)")
    assert restarts == 1
    assert not report.missed
    assert repeats <= CONCURRENCY
    assert len(set(items)) >= PAGES


def check_a_stop_is_quick_and_loses_nothing(stack: Stack, _: Path) -> None:
    stack.site("__reset__")
    slow = {"FRONTIER_RUN": "three", "REDIS_KEY_PREFIX": "three", "DOWNLOAD_DELAY": "0.02"}
    stack.compose("up", "--detach", "--scale", "worker=3", env=slow)
    stack.wait("the crawl began", lambda: len(stack.report().fetched) > 10, 60)
    started = time.monotonic()
    stack.compose("stop", "worker")
    took = time.monotonic() - started
    assert {worker["State"]["ExitCode"] for worker in stack.containers("worker")} == {0}, (
        "killed after the grace period"
    )
    half = len(stack.report().fetched)
    stack.compose("up", "--detach", "--scale", "worker=3", env=slow)
    stack.wait_for_the_end()
    report = stack.report()
    repeats = sum(times - 1 for times in report.times.values())
    print(f"    stopped within {took:.1f} s at {half} pages; in the end {len(report.missed)} missed, {repeats} twice")
    assert half < PAGES, "the crawl ended before the stop: a longer delay is needed"
    assert took < 15
    assert not report.missed
    assert not repeats


def check_a_seed_reaches_a_waiting_spider(stack: Stack, _: Path) -> None:
    stack.site("__reset__")
    fed = {"SPIDER": "feed", "SPIDER_ARGS": "", "FRONTIER_RUN": "fed"}
    stack.compose("up", "--detach", "--scale", "worker=2", env=fed)
    spellings = ["http://site:8000/", "http://site:8000/?utm_source=mail"]
    stack.compose("run", "--rm", "-T", "seed", "feed", "--dedup", *spellings, env=fed)
    stack.wait("the seed is fetched", lambda: bool(stack.report().fetched), 60)
    assert all(worker["State"]["Running"] for worker in stack.containers("worker")), "it goes on waiting"
    stack.compose("stop", "worker")
    assert stack.report().times == {0: 1}, "two spellings of one page are one fetch"


def check_prometheus_finds_the_workers_that_are_there(stack: Stack, _: Path) -> None:
    fed = {"SPIDER": "feed", "SPIDER_ARGS": "", "FRONTIER_RUN": "fed", "PROMETHEUS_PORT": "0"}
    for workers in (3, 5, 2):
        scale = ["--scale", f"worker={workers}"]
        stack.compose("--profile", "monitoring", "up", "--detach", *scale, "worker", "prometheus", env=fed)
        stack.wait(f"Prometheus sees {workers} workers", partial(stack.scrapes, workers), 90)
    stack.wait("the workers are healthy", stack.healthy, 60)
    (prometheus,) = stack.containers("prometheus")
    published = prometheus["HostConfig"]["PortBindings"]
    assert [binding["HostIp"] for bindings in published.values() for binding in bindings] == ["127.0.0.1"]
    stack.compose("stop", "worker", "prometheus")


def checks() -> list[Callable[[Stack, Path], None]]:
    """The checks in the order of this file."""
    return [value for name, value in globals().items() if name.startswith("check_")]


def main() -> int:
    """Runs every check, prints one line each and the count; the exit code is 1 if one failed."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        print("docker compose does not answer: install Docker's compose plugin")
        return 1
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder))
        try:
            for check in checks():
                name = check.__name__.removeprefix("check_").replace("_", " ")
                started = time.monotonic()
                try:
                    check(stack, Path(folder))
                    passed += 1
                    print(f"  ok      {name} ({time.monotonic() - started:.1f} s)", flush=True)
                except (AssertionError, subprocess.TimeoutExpired, KeyError, ValueError) as error:
                    failed += 1
                    print(f"  FAILED  {name}: {error}", flush=True)
        finally:
            stack.close()
    print(f"compose: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
