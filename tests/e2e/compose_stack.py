"""One project of docker compose, as the compose checks drive it: commands, states, and what was crawled."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.site.report import Report

ROOT = Path(__file__).parents[2]
PASSWORD = "s3cret"

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
    command: [redis-server, /etc/redis.conf, --dir, /srv/data, --requirepass, "{password}", --maxmemory, "{maxmemory}"]
  worker: {{build: {{network: {network}}}}}
  prometheus:
    command: [--config.file=/etc/prometheus/prometheus.yml, --storage.tsdb.path=/tmp/data]
  site: {{build: {{network: {network}}}}}
volumes:
  data: {{}}
"""
# Where no registry is reached (BUILD_NETWORK is set) the exporter comes from the distribution of the stand-ins.
EXPORTER = """
services:
  redis-exporter:
    image: {project}-exporter
    user: nobody
    entrypoint: [prometheus-redis-exporter]
    build:
      dockerfile_inline: |
        FROM redis:7-alpine
        RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus-redis-exporter
      network: {network}
"""


class Stack:
    """One project of docker compose with its own environment and volumes, gone with :meth:`close`."""

    def __init__(self, folder: Path, name: str = "", **env: str) -> None:
        self.project = f"crawlertest{os.getpid()}{name}"
        self.env = {k: v for k, v in os.environ.items() if k.startswith(("DOCKER_", "PATH", "HOME", "BUILDKIT"))}
        self.env |= {"REDIS_PASSWORD": PASSWORD, "COMPOSE_PROJECT_NAME": self.project, "PROMETHEUS_PORT": "0"}
        self.env |= {"METRICS_LINGER": "0", **env}  # most checks have no Prometheus to wait for
        network, parts = os.environ.get("BUILD_NETWORK", ""), [OVERRIDE]
        if network:
            parts.append(EXPORTER)
        self.files = ["--env-file", "deploy/demo.env", "-f", "docker-compose.yml"]
        for number, part in enumerate(parts):
            file = folder / f"{self.project}-{number}.yml"
            values = {"project": self.project, "password": PASSWORD, "maxmemory": env.get("REDIS_MAXMEMORY", "1gb")}
            file.write_text(part.format(network=network or "default", **values))
            self.files += ["-f", str(file)]

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

    # Containers.
    def up(self, workers: int, *services: str, env: dict[str, str] | None = None) -> None:
        """Starts so many workers and what they need, or `services` besides."""
        self.compose("up", "--detach", "--scale", f"worker={workers}", *services, env=env)

    def containers(self, service: str) -> list[dict[str, Any]]:
        """What ``docker inspect`` says of a service's containers, running or not."""
        ids = self.compose("ps", "--all", "--quiet", service).split()
        return list(json.loads(self.docker("inspect", *ids))) if ids else []

    def states(self, service: str = "worker") -> list[str]:
        """``healthy``, ``unhealthy``, ``starting``, or ``exited (CODE)``, one per container."""
        states = [container["State"] for container in self.containers(service)]
        return [s["Health"]["Status"] if s["Running"] else f"exited ({s['ExitCode']})" for s in states]

    def kill(self, container: dict[str, Any]) -> None:
        """Kill -9 of the container's own process, from outside: the engine's own kill would count as a manual stop."""
        sudo = [] if os.geteuid() == 0 else ["sudo"]
        subprocess.run([*sudo, "kill", "-9", str(container["State"]["Pid"])], check=True)

    def logs(self, *services: str, tail: int = 30) -> str:
        """The last lines of everybody, or of some."""
        return self.compose("logs", "--no-color", "--no-log-prefix", "--tail", str(tail), *services)

    # The crawl.
    def site(self, path: str, host: str = "127.0.0.1:8000") -> Any:
        """A document of the demo's website, or of another server that its container reaches."""
        code = f"import urllib.request as r; print(r.urlopen('http://{host}/{path}').read().decode())"
        return json.loads(self.compose("exec", "-T", "site", "python", "-c", code))

    def reset(self) -> None:
        """The website is there and has seen nothing."""
        self.compose("up", "--detach", "--wait", "site")
        self.site("__reset__")

    def query(self, expression: str) -> float | None:
        """What Prometheus answers with one number; None without any, or while it starts."""
        try:
            path = f"api/v1/query?{urllib.parse.urlencode({'query': expression})}"
            found = self.site(path, host="prometheus:9090")["data"]["result"]
        except AssertionError:
            return None
        return float(found[0]["value"][1]) if found else None

    def report(self) -> Report:
        """What the website saw so far."""
        return Report.of(self.site("__truth__"), self.site("__hits__"))

    def fetched(self) -> int:
        """Pages that were fetched so far."""
        return len(self.report().fetched)

    def items(self, folder: Path) -> dict[str, list[str]]:
        """Item files on the volume: file name → fingerprints of the items."""
        self.docker("cp", f"{self.containers('worker')[0]['Id']}:/app/items", str(folder))
        files = sorted(folder.rglob("*.jsonl"))
        return {
            file.name: [json.loads(line)["fingerprint"] for line in file.read_text().splitlines()] for file in files
        }

    def forget_items(self) -> None:
        """Empties the volume of the item files."""
        self.compose("run", "--rm", "-T", "--no-deps", "--entrypoint", "sh", "worker", "-c", "rm -rf items/*")

    # Waiting.
    def wait(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        """Until `condition` holds; AssertionError after `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s\n{self.logs()}"
            time.sleep(0.5)

    def wait_for_the_end(self, seconds: float = 240) -> None:
        """Until every worker has ended by itself, with exit code 0."""
        self.wait("the workers end", lambda: all(state.startswith("exited") for state in self.states()), seconds)
        assert set(self.states()) == {"exited (0)"}, self.logs()

    def close(self) -> None:
        """Remove containers, networks, volumes and the images built here."""
        self.compose("--profile", "*", "down", "--volumes", "--rmi", "local", "--timeout", "1", "--remove-orphans")
        images = self.docker("images", "--quiet", f"{self.project}-*").split()
        if images:
            self.docker("rmi", "--force", *set(images))
