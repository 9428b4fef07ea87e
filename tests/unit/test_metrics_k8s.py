"""The Kubernetes manifests agree with the code, with compose and with each other."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from crawler.connection import masked
from tests.unit.test_metrics_deploy import metrics_in, shown
from tests.unit.test_project_docs import assigned_settings, read_settings

ROOT = Path(__file__).parents[2]
K8S = ROOT / "deploy" / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())


def documents(path: str) -> dict[str, dict[str, Any]]:
    """kind/name → manifest."""
    found = yaml.safe_load_all((K8S / path).read_text())
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


WORKER = documents("base/worker.yaml")["Deployment/worker"]["spec"]["template"]


def test_the_job_runs_the_pod_of_the_deployment() -> None:
    job = documents("overlays/run/job.yaml")["Job/crawl"]["spec"]["template"]
    assert job["spec"].pop("restartPolicy") == "OnFailure"
    assert job == WORKER


def test_pods_get_as_long_to_stop_as_containers() -> None:
    compose = re.search(r"stop_grace_period: \D+(\d+)s", (ROOT / "docker-compose.yml").read_text())
    grace = re.search(r"FRONTIER_GRACE\", (\d+)", (ROOT / "crawler" / "settings.py").read_text())
    assert compose
    assert grace
    assert WORKER["spec"]["terminationGracePeriodSeconds"] == int(compose[1]) >= int(grace[1]) + 5


def test_probes_ask_what_is_served() -> None:
    (container,) = WORKER["spec"]["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"metrics": 9410}
    served = (ROOT / "crawler" / "metrics" / "extension.py").read_text()
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    assert [probe["path"] for probe in probes] == ["/readyz", "/readyz", "/livez"]
    assert all(f'"{probe["path"]}": self.' in served and probe["port"] == "metrics" for probe in probes)


def test_pods_are_hardened() -> None:
    stateful = documents("base/redis.yaml")["StatefulSet/redis"]["spec"]["template"]
    for pod in (WORKER["spec"], stateful["spec"]):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


def test_redis_keeps_everything() -> None:
    (redis, _) = documents("base/redis.yaml")["StatefulSet/redis"]["spec"]["template"]["spec"]["containers"]
    words = redis["args"]
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert (given["--appendonly"], given["--maxmemory-policy"], given["--save"]) == ("yes", "noeviction", "")
    assert f":-{redis['image']}}}" in (ROOT / "docker-compose.yml").read_text()


def test_each_setting_exists() -> None:
    names = set()
    for file in K8S.rglob("kustomization.yaml"):
        for generator in yaml.safe_load(file.read_text()).get("configMapGenerator", []):
            names |= {literal.partition("=")[0] for literal in generator["literals"]}
    (container,) = WORKER["spec"]["containers"]
    names |= {variable["name"] for variable in container["env"]} - {"REDIS_PASSWORD"}
    assert len(names) > 6
    assert sorted(names - assigned_settings() - read_settings() - {"SPIDER", "SPIDER_ARGS"}) == []


def test_the_scaler_asks_for_what_is_shown() -> None:
    scaled = documents("components/keda/scaledobject.yaml")
    spec = scaled["ScaledObject/worker"]["spec"]
    queries = [trigger["metadata"] for trigger in spec["triggers"] if trigger["type"] == "prometheus"]
    assert [metrics_in(query["query"]) for query in queries] == [{"crawler_frontier_queued"}]
    assert metrics_in(queries[0]["query"]) <= shown()
    config = yaml.safe_load((K8S / "base" / "kustomization.yaml").read_text())["configMapGenerator"][0]["literals"]
    (spider,) = [literal.partition("=")[2] for literal in config if literal.startswith("SPIDER=")]
    assert f'spider="{spider}"' in queries[0]["query"]
    lists = [trigger["metadata"]["listName"] for trigger in spec["triggers"] if trigger["type"] == "redis"]
    assert lists == [f"{spider}:start_urls"]
    namespace = yaml.safe_load((K8S / "overlays" / "fed" / "kustomization.yaml").read_text())["namespace"]
    addresses = [trigger["metadata"]["address"] for trigger in spec["triggers"] if trigger["type"] == "redis"]
    assert addresses == [f"redis.{namespace}.svc:6379"], "the operator is in a namespace of its own"
    assert f"TriggerAuthentication/{spec['triggers'][1]['authenticationRef']['name']}" in scaled


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl renders the overlays")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_overlay_renders_whole(overlay: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(K8S / "overlays" / overlay)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {f"{one['kind']}/{one['metadata']['name']}": one for one in yaml.safe_load_all(done.stdout)}
    kinds = {name.partition("/")[0] for name in found}
    redis, worker = {"StatefulSet", "Service"}, {"Job"} if overlay == "run" else {"Deployment", "PodDisruptionBudget"}
    assert worker <= kinds
    assert ({"Job", "Deployment"} - worker).isdisjoint(kinds)
    assert kinds & redis == (set() if overlay == "external-redis" else redis)
    if overlay != "run":
        assert "replicas" not in found["Deployment/worker"]["spec"], "the scaler has the number, not the next apply"
    pod = found["Job/crawl" if overlay == "run" else "Deployment/worker"]["spec"]["template"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/part-of"] == "crawler", "the PodMonitor selects by it"
    (url,) = [variable for variable in pod["spec"]["containers"][0]["env"] if variable["name"] == "REDIS_URL"]
    assert ("valueFrom" in url) == (overlay == "external-redis")
    if "value" in url:
        assert masked(url["value"]) == "redis://:***@redis:6379/0"
