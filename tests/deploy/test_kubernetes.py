"""The manifests in deploy/kubernetes fit the server, each other, and the part of Kubernetes' API that they use.

No schema of Kubernetes is installed here, so `SHAPES` is ours: the fields that these manifests may have, by kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from apps.version import read_version
from embedded import commands
from tests.test_docs import FILES, PRODUCTION, ROOT

MANIFESTS: list[dict[str, Any]] = [
    each
    for file in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for each in yaml.safe_load_all(file.read_text())
]
BY_NAME = {f"{each['kind']}/{each['metadata']['name']}": each for each in MANIFESTS}
PARTS = {
    "web": commands.web("0.0.0.0:8000"),
    "worker": commands.worker(),
    "dispatcher": commands.dispatcher(),
    "beat": commands.beat("/srv/state/celerybeat-schedule"),
    "migrate": list(commands.MIGRATE),
}


def closed(required: str, optional: str = "", **fields: Any) -> dict[str, Any]:
    """An object with these fields and no others."""
    names = {*required.split(), *optional.split(), *fields}
    properties = {name: fields.get(name, True) for name in names}
    needed = sorted(names - set(optional.split()))
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
METADATA = {"type": "object", "properties": {"name": NAME, "namespace": NAME, "labels": TEXTS}, "required": ["name"]}
CONTAINER = closed(
    "name image command envFrom volumeMounts securityContext resources",
    "env ports readinessProbe livenessProbe",
    command={"type": "array", "items": {"type": "string"}, "minItems": 2},
)
POD = closed(
    "containers volumes",
    "restartPolicy",
    containers={"type": "array", "items": CONTAINER, "minItems": 1},
    securityContext={"type": "object", "properties": {"runAsNonRoot": {"const": True}}, "required": ["runAsNonRoot"]},
    automountServiceAccountToken={"const": False},
)
TEMPLATE = closed("", metadata=closed("", labels=TEXTS), spec=POD)
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "Namespace": ("v1", closed("apiVersion kind metadata")),
    "ConfigMap": ("v1", closed("apiVersion kind metadata", data=TEXTS)),
    "Service": ("v1", closed("apiVersion kind metadata", spec=closed("selector ports"))),
    "Deployment": (
        "apps/v1",
        closed("apiVersion kind metadata", spec=closed("replicas strategy selector", template=TEMPLATE)),
    ),
    "Job": ("batch/v1", closed("apiVersion kind metadata", spec=closed("backoffLimit", template=TEMPLATE))),
}


def pod(part: str) -> dict[str, Any]:
    kind = "Job" if part == "migrate" else "Deployment"
    spec: dict[str, Any] = BY_NAME[f"{kind}/proving-{part}"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("name", BY_NAME)
def test_a_manifest_has_the_fields_of_its_kind_and_no_others(name: str) -> None:
    version, shape = SHAPES[name.partition("/")[0]]

    jsonschema.validate(BY_NAME[name], shape)
    jsonschema.validate(BY_NAME[name]["metadata"], METADATA)
    assert BY_NAME[name]["apiVersion"] == version


@pytest.mark.parametrize("part", PARTS)
def test_a_part_runs_the_command_of_the_supervisor_in_the_image_of_this_version(part: str) -> None:
    (container,) = pod(part)["containers"]

    assert container["command"] == ["python", *PARTS[part]]
    assert container["image"] == f"proving-ground:{read_version(ROOT)}"


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_confined_and_finds_what_it_mounts(part: str) -> None:
    (container,) = pod(part)["containers"]

    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod(part)["volumes"]}
    assert container["resources"]["limits"]["memory"]


def test_every_variable_is_a_documented_one_and_every_secret_a_file() -> None:
    data = BY_NAME["ConfigMap/proving"]["data"]

    assert all(f"`{name}`" in PRODUCTION for name in data)
    assert {name for name, value in data.items() if value.startswith("/run/secrets/")} <= FILES
    assert not {"PROVING_SECRET_KEY", "PROVING_SSH_KEYS", "PROVING_METRICS_TOKEN"} & data.keys()


def test_labels_select_the_pods_and_probes_ask_by_an_allowed_name() -> None:
    for each in MANIFESTS:
        if each["kind"] == "Deployment":
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"] == labels
    service, (web,) = BY_NAME["Service/proving-web"], pod("web")["containers"]
    assert service["spec"]["selector"] == BY_NAME["Deployment/proving-web"]["spec"]["template"]["metadata"]["labels"]
    assert BY_NAME["ConfigMap/proving"]["data"]["PROVING_ALLOWED_HOSTS"] in json.dumps(web["readinessProbe"])
    assert {web[f"{kind}Probe"]["httpGet"]["path"] for kind in ("readiness", "liveness")} == {"/readyz", "/healthz"}


def test_the_dispatcher_lends_as_many_connections_as_the_supervisors() -> None:
    (container,) = pod("dispatcher")["containers"]

    assert {each["name"]: each["value"] for each in container["env"]} == commands.DISPATCHER_ENVIRONMENT


def test_the_document_names_the_manifests() -> None:
    assert "(../deploy/kubernetes)" in PRODUCTION
    assert Path(ROOT / "deploy" / "kubernetes").is_dir()
