"""What the compose file must hold, check by check, each on the stack that the one before it left."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.e2e.compose_stack import ROOT, Stack
from tests.support.server import free_port

PAGES = 300
CONCURRENCY = 16  # the default of CONCURRENT_REQUESTS: as many as a killed worker may have had in flight


def new_crawl(name: str, **env: str) -> dict[str, str]:
    """An environment in which `name` is a crawl of its own: other keys, another run."""
    return {"FRONTIER_RUN": name, "REDIS_KEY_PREFIX": name, **env}


def check_the_file_is_valid(stack: Stack, _: Path) -> None:
    stack.compose("--profile", "*", "config", "--quiet")


def check_the_password_is_required(stack: Stack, _: Path) -> None:
    plain = {k: v for k, v in stack.env.items() if k != "REDIS_PASSWORD"}
    command = ["docker", "compose", "--env-file", "deploy/demo.env", "config", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "REDIS_PASSWORD" in done.stderr
    assert ".env" in done.stderr


def check_the_environment_reaches_the_workers(stack: Stack, _: Path) -> None:
    for workers in ("", "5"):
        text = stack.compose("config", "--format", "json", env={"WORKERS": workers, "FRONTIER_ORDER": "lifo"})
        worker = json.loads(text)["services"]["worker"]
        assert worker["deploy"]["replicas"] == int(workers or 2)
        assert worker["environment"]["FRONTIER_ORDER"] == "lifo"
        assert worker["environment"]["DOWNLOAD_DELAY"] == "0", "of demo.env"


def check_the_image_builds(stack: Stack, _: Path) -> None:
    stack.compose("build", timeout=900)
    image = f"{stack.project}-worker"
    print(f"    image: {int(stack.docker('image', 'inspect', '-f', '{{.Size}}', image)) / 1e6:.0f} MB", end=", ")
    inside = ("run", "--rm", "--network", "none", "--entrypoint", "sh", image, "-c")
    print("MB of it in", " ".join(stack.docker(*inside, "du -sm /venv /app").split()))
    stack.docker(*inside, "for tool in gcc cc make g++; do ! command -v $tool || exit 1; done")
    stack.docker(*inside, "! test -e /venv/bin/pip && ! touch /app/x && ls /app/crawler/__pycache__/settings.*.pyc")


def check_three_workers_crawl_to_the_end(stack: Stack, folder: Path) -> None:
    stack.reset()
    stack.compose("--profile", "monitoring", "up", "--detach", "--wait", "prometheus")
    stack.up(3, env={"METRICS_LINGER": ""})  # the default
    started = time.monotonic()
    stack.wait_for_the_end()
    report = stack.report()
    twice = {page: times for page, times in report.times.items() if times > 1}
    items = {name: len(found) for name, found in stack.items(folder / "items").items()}
    seen = stack.query('sum(max_over_time(crawler_items_total{outcome="scraped"}[10m]))')
    stack.compose("stop", "prometheus")
    print(
        f"    {report.pages} pages, {len(report.missed)} missed, {len(twice)} fetched twice, items per worker:", end=" "
    )
    print(f"{list(items.values())}, of Prometheus {seen}, ended within {time.monotonic() - started:.0f} s")
    assert report.pages == PAGES
    assert not report.missed
    assert not twice
    assert sum(items.values()) == PAGES
    assert len(items) == 3, f"not every worker worked: {items}"
    assert seen == PAGES, "Prometheus saw the last page of each worker"


def check_the_containers_are_hardened(stack: Stack, _: Path) -> None:
    for service in ("worker", "redis", "site", "prometheus"):
        for container in stack.containers(service):
            user, host = container["Config"]["User"], container["HostConfig"]
            assert user not in ("", "0", "root"), f"{service} runs as {user or 'root'}"
            assert host["ReadonlyRootfs"], service
            assert "no-new-privileges:true" in host["SecurityOpt"], service
            assert host["CapDrop"] == ["ALL"], service
            published = [binding for bindings in (host["PortBindings"] or {}).values() for binding in bindings]
            allowed = ["127.0.0.1"] if service == "prometheus" else []
            assert [binding["HostIp"] for binding in published] == allowed, f"{service} publishes {published}"
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
    stack.up(3)
    stack.wait_for_the_end(60)
    assert len(stack.report().hits) == before
    log = stack.logs("worker")
    assert "FRONTIER_RUN" in log, log


@contextmanager
def disturbed(stack: Stack, name: str, at: int, **env: str) -> Iterator[None]:
    """Three workers on a crawl of their own: the block runs once `at` pages are fetched; in the end none is missed."""
    stack.reset()
    stack.up(3, env=new_crawl(name, **env))
    stack.wait(f"{at} pages are fetched", lambda: stack.fetched() >= at, 180)
    assert any(worker["State"]["Running"] for worker in stack.containers("worker")), "it ended before the disturbance"
    yield
    stack.wait_for_the_end()
    report = stack.report()
    repeats = sum(times - 1 for times in report.times.values())
    print(f"    {len(report.missed)} missed, {repeats} fetched twice", end="; ")
    assert not report.missed
    assert repeats <= CONCURRENCY


def check_a_killed_worker_loses_nothing(stack: Stack, folder: Path) -> None:
    stack.forget_items()
    with disturbed(stack, "kill", PAGES // 3, DOWNLOAD_DELAY="0.03"):
        victim = stack.containers("worker")[1]
        # Every process but the container's init: which then ends with the code of a killed child.
        subprocess.run(["docker", "exec", victim["Id"], "sh", "-c", "kill -9 -1"], env=stack.env, check=False)
    restarts = json.loads(stack.docker("inspect", victim["Id"]))[0]["RestartCount"]
    items = [item for found in stack.items(folder / "killed").values() for item in found]
    print(f"restarted {restarts} time(s), {len(items)} items")
    assert restarts == 1
    assert len(set(items)) == PAGES


def check_a_killed_redis_comes_back_with_its_data(stack: Stack, _: Path) -> None:
    with disturbed(stack, "redis", PAGES // 3, DOWNLOAD_DELAY="0.05"):
        (redis,) = stack.containers("redis")
        restarts = redis["RestartCount"]
        stack.kill(redis)
        stack.wait("Redis comes back", lambda: stack.containers("redis")[0]["RestartCount"] == restarts + 1, 90)
        stack.wait("Redis is healthy", lambda: stack.states("redis") == ["healthy"], 90)
        keys = stack.compose("exec", "-T", "redis", "redis-cli", "--scan", "--pattern", "{redis:*").split()
    print(f"{len(keys)} keys were there after its restart")
    assert len(keys) > 5
    assert "Redis works again" in stack.logs("worker", tail=1000)


def check_a_worker_whose_network_is_cut(stack: Stack, _: Path) -> None:
    with disturbed(stack, "cut", 30, DOWNLOAD_DELAY="0.1"):
        victim, network = stack.containers("worker")[0]["Id"], f"{stack.project}_frontier"
        stack.docker("network", "disconnect", network, victim)
        began = time.monotonic()
        stack.wait("503 of the cut worker", lambda: probe(stack, victim) == 503, 15)
        silent = time.monotonic() - began
        stack.wait("the others crawl it all", lambda: not stack.report().missed, 240)
        stack.docker("network", "connect", network, victim)
        began = time.monotonic()
        stack.wait("it is well again, or done", lambda: probe(stack, victim) in (200, 0), 15)
        print(f"    unwell after {silent:.0f} s, well {time.monotonic() - began:.0f} s after the mending")
    print()


def probe(stack: Stack, container: str) -> int:
    """Status of /healthz, asked inside a worker's container; 0 once it has ended."""
    code = (
        "import urllib.request as r, urllib.error as e\n"
        "try: print(r.urlopen('http://127.0.0.1:9410/healthz').status)\n"
        "except e.HTTPError as x: print(x.code)"
    )
    done = subprocess.run(
        ["docker", "exec", container, "python", "-c", code], env=stack.env, capture_output=True, text=True, check=False
    )
    return int(done.stdout or 0) if done.returncode == 0 else 0


def check_a_stop_is_quick_and_loses_nothing(stack: Stack, _: Path) -> None:
    with disturbed(stack, "stop", 10, DOWNLOAD_DELAY="0.02"):
        started = time.monotonic()
        stack.compose("stop", "worker")
        took = time.monotonic() - started
        assert set(stack.states()) == {"exited (0)"}, "killed after the grace period"
        half = stack.fetched()
        stack.up(3, env=new_crawl("stop", DOWNLOAD_DELAY="0.02"))
    assert half < PAGES, "the crawl ended before the stop: a longer delay is needed"
    assert took < 15
    print(f"stopped within {took:.1f} s at {half} pages")
    assert set(stack.report().times.values()) == {1}


def check_down_and_up_again_lose_nothing(stack: Stack, folder: Path) -> None:
    stack.forget_items()
    slow = new_crawl("down", DOWNLOAD_DELAY="0.03")
    stack.reset()
    stack.up(3, env=slow)
    stack.wait("the crawl began", lambda: stack.fetched() > 10, 180)
    started = time.monotonic()
    stack.compose("--profile", "*", "down")  # as a restart of the machine: only the volumes stay
    took = time.monotonic() - started
    stack.up(3, env=slow)
    stack.wait_for_the_end()
    rest = stack.fetched()
    stack.compose("--profile", "*", "down")
    stack.up(3, env=slow)
    stack.wait_for_the_end(60)
    items = [item for found in stack.items(folder / "down").values() for item in found]
    print(
        f"    down within {took:.1f} s; {rest} pages after it, {len(items)} items in all, {len(set(items))} different"
    )
    assert 0 < rest < PAGES
    assert len(items) == len(set(items)) == PAGES
    assert not stack.report().hits, "the finished run was begun again"


def check_two_projects_side_by_side(stack: Stack, folder: Path) -> None:
    other = Stack(folder, "b", DEMO_PAGES="60")
    try:
        stack.reset()
        stack.up(2, env=new_crawl("side"))
        other.up(1)
        for one, pages in ((stack, PAGES), (other, 60)):
            one.wait_for_the_end()
            assert set(one.report().times.values()) == {1}
            assert len(one.report().fetched) == pages
    finally:
        other.close()


def check_a_seed_reaches_a_waiting_spider(stack: Stack, _: Path) -> None:
    stack.reset()
    fed = new_crawl("fed", SPIDER="feed", SPIDER_ARGS="", DEDUP_WINDOW="2h")
    stack.up(2, env=fed)
    spellings = ["http://site:8000/", "http://site:8000/?utm_source=mail"]
    stack.compose("run", "--rm", "-T", "seed", "feed", "--dedup", *spellings, env=fed)
    stack.wait("the seed is fetched", lambda: bool(stack.fetched()), 180)
    assert all(worker["State"]["Running"] for worker in stack.containers("worker")), "it goes on waiting"
    assert stack.report().times == {0: 1}, "two spellings of one page are one fetch"
    assert "generation" in stack.compose("run", "--rm", "-T", "upkeep", "rotate", "feed", env=fed)
    assert "bitmap" in stack.compose("run", "--rm", "-T", "upkeep", env=fed), "the memory's status"
    assert "live" in stack.compose("run", "--rm", "-T", "worker", "frontier", "workers", "feed", env=fed)
    stack.compose("stop", "worker")


def check_prometheus_finds_the_workers_that_are_there(stack: Stack, _: Path) -> None:
    fed = new_crawl("fed", SPIDER="feed", SPIDER_ARGS="", DEDUP_WINDOW="2h")
    services = ("worker", "prometheus", "redis-exporter")
    for workers in (3, 5, 2):
        stack.compose("--profile", "monitoring", "up", "--detach", "--scale", f"worker={workers}", *services, env=fed)
        stack.wait(f"Prometheus sees {workers}", lambda n=workers: stack.query('sum(up{job="crawler"})') == n, 240)  # type: ignore[misc]
    stack.wait("the workers are healthy", lambda: set(stack.states()) == {"healthy"}, 180)
    stack.wait("the exporter reaches Redis", partial(exported, stack), 180)
    stack.compose("stop", *services)


def exported(stack: Stack) -> bool:
    """Whether the alerts about Redis have what they read."""
    used, most = (stack.query(f"redis_memory_{what}_bytes") for what in ("used", "max"))
    return bool(
        used and most == 1024**3 and stack.query("redis_up") == 1 and stack.query("redis_evicted_keys_total") == 0
    )


def check_no_worker_is_fine_too(stack: Stack, _: Path) -> None:
    stack.up(0, env=new_crawl("none"))
    assert stack.states() == []
    assert "0" in stack.compose("run", "--rm", "-T", "worker", "frontier", "status", "site", env=new_crawl("none"))


def check_development_reaches_redis_from_this_machine(stack: Stack, _: Path) -> None:
    port, files = free_port(), stack.files
    try:
        stack.files = [*files, "-f", "docker-compose.override.yml"]
        env = {"REDIS_PUBLISHED_PORT": str(port)}
        stack.compose("up", "--detach", "--wait", "redis", env=env)
        url = f"redis://:{stack.env['REDIS_PASSWORD']}@127.0.0.1:{port}/0"
        status = [sys.executable, "-m", "scrapy", "frontier", "status", "site"]
        asked = {**stack.env, "REDIS_URL": url, "REDIS_KEY_PREFIX": "kill", "CRAWLER_ENV_FILE": ""}
        done = subprocess.run(status, cwd=ROOT, env=asked, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "finished" in done.stdout, done.stdout
        mounted = stack.compose(
            "run", "--rm", "-T", "--entrypoint", "sh", "worker", "-c", "grep /app/crawler /proc/mounts", env=env
        )
        assert " ro," in mounted
    finally:
        stack.files = files
