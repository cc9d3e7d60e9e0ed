"""The manifests in deploy/kubernetes fit the server, each other, and the schema of Kubernetes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from apps.configuration.version import read_version
from embedded import commands
from tests.documents.test_docs import FILES, PRODUCTION, ROOT

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


KUBERNETES = "1.37"
NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
METADATA = {"type": "object", "properties": {"name": NAME, "namespace": NAME}, "required": ["name"]}


def check(manifest: dict[str, Any]) -> None:
    """ValueError unless Kubernetes takes the manifest, and knows every field of it."""
    import kubernetes_validate as schema  # only `make .venv-all` installs it

    try:
        schema.validate(manifest, KUBERNETES, strict=True)
        jsonschema.validate(manifest["metadata"], METADATA)
    except (jsonschema.ValidationError, schema.SchemaNotFoundError) as error:
        raise ValueError(error.message) from error


def pod(part: str) -> dict[str, Any]:
    kind = "Job" if part == "migrate" else "Deployment"
    spec: dict[str, Any] = BY_NAME[f"{kind}/proving-{part}"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.needs("kubernetes-validate")
@pytest.mark.parametrize("name", BY_NAME)
def test_a_manifest_fits_the_schema_of_kubernetes(name: str) -> None:
    check(BY_NAME[name])


@pytest.mark.needs("kubernetes-validate")
@pytest.mark.parametrize(
    ("path", "wrong", "refusal"),
    [
        (("apiVersion",), "apps/v1beta1", "kind Deployment with api version apps/v1beta1"),
        (("spec", "replicas"), "two", "'two' is not of type 'integer'"),
        (("spec", "template", "spec", "volume"), [], "'volume' was unexpected"),
        (
            ("spec", "template", "spec", "containers", 0, "readinessProbe", "httpGet", "port"),
            None,
            "None is valid under",
        ),
        (("spec", "template", "spec", "containers", 0, "securityContext", "readonlyRootFs"), True, "was unexpected"),
        (("metadata", "name"), "Proving_Web", "'Proving_Web' does not match"),
    ],
)
def test_the_schema_refuses_a_misspelt_field_and_a_value_of_another_type(
    path: tuple[Any, ...], wrong: Any, refusal: str
) -> None:
    manifest = copy.deepcopy(BY_NAME["Deployment/proving-web"])
    *parents, field = path
    changed: Any = manifest
    for parent in parents:
        changed = changed[parent]
    changed[field] = wrong

    with pytest.raises(ValueError, match=refusal):
        check(manifest)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_runs_the_command_of_the_supervisor_in_the_image_of_this_version(part: str) -> None:
    (container,) = pod(part)["containers"]

    assert container["command"] == ["python", *PARTS[part]]
    assert container["image"] == f"proving-ground:{read_version(ROOT)}"


@pytest.mark.parametrize("part", PARTS)
def test_a_pod_is_confined_and_has_all_volumes_that_it_mounts(part: str) -> None:
    (container,) = pod(part)["containers"]

    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {volume_mount["name"] for volume_mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod(part)["volumes"]
    }
    assert container["resources"]["limits"]["memory"]
    assert pod(part)["securityContext"]["runAsNonRoot"] is True
    assert pod(part)["automountServiceAccountToken"] is False


def test_every_variable_is_a_documented_one_and_every_secret_a_file() -> None:
    data = BY_NAME["ConfigMap/proving"]["data"]

    assert all(f"`{name}`" in PRODUCTION for name in data)
    assert {name for name, value in data.items() if value.startswith("/run/secrets/")} <= FILES
    assert not {"PROVING_SECRET_KEY", "PROVING_SSH_KEYS", "PROVING_METRICS_TOKEN"} & data.keys()


def test_only_the_job_that_migrates_has_the_owner_and_its_password() -> None:
    (migrate,) = pod("migrate")["containers"]
    owner = {each["name"]: each["value"] for each in migrate["env"]}
    data = BY_NAME["ConfigMap/proving"]["data"]
    with_owner = [part for part in PARTS if "proving-owner" in json.dumps(pod(part))]

    assert with_owner == ["migrate"]
    assert owner["PROVING_DATABASE_PASSWORD_FILE"].startswith("/run/secrets/owner/")
    assert owner["PROVING_RUNTIME_PASSWORD_FILE"] == data["PROVING_DATABASE_PASSWORD_FILE"]
    assert f"//{owner['PROVING_RUNTIME_ROLE']}@" in data["PROVING_DATABASE_URL"]
    assert owner["PROVING_DATABASE_URL"].replace("proving@", "proving_app@") == data["PROVING_DATABASE_URL"]


def test_labels_select_the_pods_and_probes_ask_by_an_allowed_name() -> None:
    for manifest in MANIFESTS:
        if manifest["kind"] == "Deployment":
            labels = manifest["spec"]["template"]["metadata"]["labels"]
            assert manifest["spec"]["selector"]["matchLabels"] == labels
    service, (web,) = BY_NAME["Service/proving-web"], pod("web")["containers"]
    assert service["spec"]["selector"] == BY_NAME["Deployment/proving-web"]["spec"]["template"]["metadata"]["labels"]
    assert BY_NAME["ConfigMap/proving"]["data"]["PROVING_ALLOWED_HOSTS"] in json.dumps(web["readinessProbe"])
    assert {web[f"{kind}Probe"]["httpGet"]["path"] for kind in ("readiness", "liveness")} == {"/readyz", "/healthz"}


def test_the_dispatcher_has_the_same_connection_limit_as_the_supervisors() -> None:
    (container,) = pod("dispatcher")["containers"]

    assert {each["name"]: each["value"] for each in container["env"]} == commands.DISPATCHER_ENVIRONMENT


def test_the_document_names_the_manifests() -> None:
    assert "(../../deploy/kubernetes)" in PRODUCTION
    assert Path(ROOT / "deploy" / "kubernetes").is_dir()
