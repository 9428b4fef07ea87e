#!/bin/sh
# deploy/check.sh: every static check of what is deployed. A tool that is missing is named, and the check it would make too.
# BIN is the folder of the Python tools (.venv/bin).
set -eu
bin=${BIN:-.venv/bin} k8s=deploy/k8s
rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT
have() { command -v "$1" >/dev/null 2>&1 || { echo "NOT checked: $2 (needs $1)"; return 1; }; }

"$bin/hadolint" deploy/Dockerfile
echo "ok: Dockerfile"
"$bin/check-jsonschema" --quiet --builtin-schema vendor.compose-spec docker-compose.yml docker-compose.override.yml
echo "ok: compose schema"
if docker compose version >/dev/null 2>&1; then
  for files in docker-compose.yml docker-compose.yml:docker-compose.override.yml; do
    REDIS_PASSWORD=x COMPOSE_FILE=$files docker compose --profile '*' config --quiet
  done
  echo "ok: docker compose config"
else
  echo "NOT checked: docker compose config (needs docker with its compose plugin)"
fi

# Kubernetes: each overlay as it would be applied, and the pieces that have no schema with the validator.
"$bin/check-jsonschema" --quiet --schemafile $k8s/schemas/podmonitor.json $k8s/components/monitoring/podmonitor.yaml
"$bin/python" - "$rendered" <<'EOF'
import pathlib, sys, yaml
text = pathlib.Path("deploy/k8s/components/keda/scaledobject.yaml").read_text()
for number, document in enumerate(yaml.safe_load_all(text)):
    pathlib.Path(sys.argv[1], f"keda-{number}.yaml").write_text(yaml.safe_dump(document))
EOF
"$bin/check-jsonschema" --quiet --schemafile $k8s/schemas/scaledobject.json "$rendered"/keda-*.yaml
echo "ok: fields of KEDA and the Prometheus operator"
"$bin/kubernetes-validate" --strict --quiet --no-warn $k8s/base/worker.yaml $k8s/base/redis.yaml $k8s/base/network.yaml \
  $k8s/components/hpa/hpa.yaml $k8s/overlays/run/job.yaml
echo "ok: manifests"
if have kubectl "the overlays as kustomize renders them"; then
  for overlay in $k8s/overlays/*/; do
    name=$(basename "$overlay")
    kubectl kustomize "$overlay" > "$rendered/$name.yaml"
    "$bin/kubernetes-validate" --strict --quiet --no-warn "$rendered/$name.yaml"
    echo "ok: overlay $name"
  done
fi

if have promtool "Prometheus's configuration, rules and their cases"; then
  for config in prometheus local; do promtool check config "deploy/prometheus/$config.yml" >/dev/null; done
  promtool test rules deploy/prometheus/rules_test.yml >/dev/null
  echo "ok: Prometheus's configuration, rules and their cases"
fi
