"""docker-compose.yml runs what the embedded supervisor runs, and refuses to start without its secrets."""

import ast
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps import ready
from apps.middleware import limits
from embedded import commands, paths
from embedded.servers.postgres import RUNTIME_USER
from embedded.stack import Stack
from embedded.supervisor import Supervisor
from tests.site.generated_pages import variables

TEXT = (paths.CHECKOUT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, Any] = COMPOSE["services"]
LASTING = ("web", "worker", "dispatcher", "beat")
SERVER = (*LASTING, "migrate")
STORES = ("postgres", "redis")
IMAGE = (paths.CHECKOUT / "Dockerfile").read_text()
EXAMPLE = (paths.CHECKOUT / ".env.example").read_text()
STATE = "/srv/state"


@pytest.mark.parametrize(
    ("service", "arguments"),
    [
        ("web", commands.web("0.0.0.0:8000")),
        ("worker", commands.worker()),
        ("dispatcher", commands.dispatcher()),
        ("beat", commands.beat(f"{STATE}/celerybeat-schedule")),
        ("migrate", list(commands.MIGRATE)),
    ],
)
def test_a_command_is_the_supervisors_but_for_addresses_and_paths(service: str, arguments: list[str]) -> None:
    assert [_by_default(each) for each in SERVICES[service]["command"]] == ["python", *arguments]


def _by_default(argument: str) -> str:
    """The argument without variables that are not set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", argument)


def test_the_supervisor_runs_these_commands(state: Path) -> None:
    with Supervisor(state) as supervisor:
        stack = Stack(supervisor)
        assert stack.web.argv[1:] == commands.web(f"127.0.0.1:{stack.port}")
        assert stack.worker.argv[1:] == commands.worker()
        assert stack.dispatcher.argv[1:] == commands.dispatcher()
        assert stack.beat.argv[1:] == commands.beat(f"{supervisor.state}/celerybeat-schedule")
        assert SERVICES["worker"]["stop_signal"] == stack.worker.stop_signal.name


def test_compose_sets_every_variable_that_the_server_reads() -> None:
    passed = {name for service in SERVER for name in SERVICES[service]["environment"]}
    in_image = set(re.findall(r"\b(PROVING_[A-Z_]+)=", IMAGE.rpartition("FROM ")[2]))

    assert {variable.name for variable in variables.read(variables.SETTINGS)} <= passed | in_image


@pytest.mark.parametrize("variable", variables.read(variables.SETTINGS), ids=lambda variable: variable.name)
def test_a_default_of_compose_is_that_of_the_settings(variable: variables.Variable) -> None:
    defaults = set(re.findall(rf"\$\{{{variable.name}:-([^}}]*)\}}", TEXT))
    if variable.default is None or variable.name == "PROVING_DATABASE_POOL":
        return
    default = ast.literal_eval(variable.default) if defaults else ""

    assert defaults <= {variables.spelled(default)}


def test_dispatcher_and_web_have_the_same_connection_limits_as_without_compose() -> None:
    pools = {name: SERVICES[name]["environment"]["PROVING_DATABASE_POOL"] for name in ("web", "dispatcher")}
    pool = commands.DISPATCHER_ENVIRONMENT["PROVING_DATABASE_POOL"]

    assert pools == {"web": "${PROVING_DATABASE_POOL:-10}", "dispatcher": f"${{PROVING_DATABASE_POOL:-{pool}}}"}
    assert '"PROVING_DATABASE_POOL", "10"' in (paths.CHECKOUT / "apps" / "wsgi.py").read_text()


@pytest.mark.parametrize("secret", ["POSTGRES_PASSWORD", "REDIS_PASSWORD"])
def test_a_password_of_a_store_is_required(secret: str) -> None:
    environment = " ".join(SERVICES["migrate"]["environment"].values())
    assert re.search(rf"\$\{{{secret}:\?[^}}]+\}}", environment)


def test_only_migrate_connects_as_the_owner_of_the_tables_and_it_creates_the_role_of_the_others() -> None:
    owner = SERVICES["migrate"]["environment"]
    with_password = [name for name, service in SERVICES.items() if "POSTGRES_PASSWORD" in str(service)]

    assert sorted(with_password) == ["migrate", "postgres"]
    for name in (*LASTING, "backup"):
        environment = SERVICES[name]["environment"]
        assert (
            environment["PROVING_DATABASE_URL"] == f"postgres://{owner['PROVING_RUNTIME_ROLE']}@postgres:5432/proving"
        )
        assert environment["PROVING_DATABASE_PASSWORD_FILE"] == owner["PROVING_RUNTIME_PASSWORD_FILE"]
        assert not environment["PROVING_DATABASE_PASSWORD"]
    assert (
        owner["PROVING_DATABASE_URL"]
        == f"postgres://{SERVICES['postgres']['environment']['POSTGRES_USER']}@postgres:5432/proving"
    )
    assert owner["PROVING_RUNTIME_ROLE"] == RUNTIME_USER


@pytest.mark.parametrize(
    "secret", ["PROVING_SECRET_KEY", "PROVING_SSH_KEYS", "PROVING_METRICS_TOKEN", "PROVING_OIDC_CLIENT_SECRET"]
)
def test_a_secret_may_come_from_a_file(secret: str) -> None:
    environment = SERVICES["web"]["environment"]

    assert (environment[secret], environment[f"{secret}_FILE"]) == (f"${{{secret}:-}}", f"${{{secret}_FILE:-}}")


def test_the_example_of_env_has_no_comment_behind_a_value_and_no_secret() -> None:
    lines = [line for line in EXAMPLE.splitlines() if line and not line.startswith("#")]
    values = dict(line.split("=", 1) for line in lines)

    assert not any("#" in line for line in lines)
    assert [name for name, value in values.items() if not value] == [
        "PROVING_SECRET_KEY",
        "PROVING_SSH_KEYS",
        "POSTGRES_PASSWORD",
        "REDIS_PASSWORD",
    ]
    assert all(f"${{{name}:" in TEXT for name in values)


def test_one_service_builds_the_image_of_all() -> None:
    assert [name for name, service in SERVICES.items() if "build" in service] == ["migrate"]
    assert {SERVICES[name]["image"] for name in (*SERVER, "backup")} == {"${PROVING_IMAGE:-proving-ground}"}


def test_every_package_of_the_image_is_compiled_while_its_files_can_be_written() -> None:
    packages = {
        name
        for name in re.findall(r"^COPY (\w+) \1$", IMAGE, re.MULTILINE)
        if list((paths.CHECKOUT / name).rglob("*.py"))
    }
    (compiled,) = re.findall(r"compileall -q ([\w ]+) \\\n", IMAGE)

    assert set(compiled.split()) == packages


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_is_confined_limited_and_its_log_rotated(service: str) -> None:
    definition = SERVICES[service]

    assert definition["cap_drop"] == ["ALL"] and definition["security_opt"] == ["no-new-privileges:true"]
    assert definition["mem_limit"] and definition["pids_limit"]
    assert definition["logging"]["options"].keys() == {"max-size", "max-file"}
    assert definition.get("read_only") is (None if service in STORES else True)
    assert all("size=" in tmpf for tmpf in definition.get("tmpfs", []))
    assert bool(definition.get("tmpfs")) is bool(definition.get("read_only"))


@pytest.mark.parametrize("service", sorted(SERVICES.keys() - {"migrate"}))
def test_every_lasting_service_has_a_health_check_and_is_restarted(service: str) -> None:
    assert SERVICES[service]["healthcheck"]["test"]
    assert SERVICES[service]["restart"] == "unless-stopped"


def test_postgresql_is_healthy_by_tcp_only_and_has_room_for_four_dispatchers() -> None:
    (room,) = re.findall(r"max_connections=\$\{POSTGRES_MAX_CONNECTIONS:-(\d+)\}", TEXT)
    (dispatcher,) = re.findall(r"PROVING_DATABASE_POOL:-(20)\}", TEXT)

    assert "--host=127.0.0.1" in SERVICES["postgres"]["healthcheck"]["test"]
    assert int(room) > 4 * int(dispatcher) + 20


def test_the_image_has_version_commit_and_health_check() -> None:
    labels = re.findall(r"org\.opencontainers\.image\.(\w+)=", IMAGE)

    assert {"title", "version", "revision", "created", "source", "licenses"} <= set(labels)
    assert 'HEALTHCHECK --interval=15s --timeout=15s --start-period=60s CMD ["python", "-I", "apps/ready.py"]' in IMAGE
    assert "groupadd --system --gid 10001" in IMAGE


@pytest.mark.parametrize("file", ["deploy/nginx.conf", "docs/operations/production.md"])
def test_the_proxy_accepts_the_size_of_an_import(file: str) -> None:
    (mib,) = set(re.findall(r"^ +client_max_body_size (\d+)m;$", (paths.CHECKOUT / file).read_text(), re.MULTILINE))

    assert int(mib) * 1024**2 >= limits.UPLOAD_MOST


@pytest.mark.parametrize(
    "file",
    [".env", "proving-2026-11-22.tar", "before.tar", "secrets/ssh_keys", "tls/key.pem", "docker-compose.override.yml"],
)
def test_git_ignores_the_files_that_an_installation_creates_in_the_checkout(file: str) -> None:
    argv = ["git", "check-ignore", "--no-index", "--quiet", file]
    assert subprocess.run(argv, cwd=paths.CHECKOUT, timeout=30, check=False).returncode == 0


def test_named_volumes_are_declared_and_used() -> None:
    text = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", TEXT)
    services = yaml.safe_load(text)["services"].values()
    used = {volume.split(":")[0] for service in services for volume in service["volumes"] if volume[0] != "."}
    assert used == COMPOSE["volumes"].keys()


def test_web_has_a_port_on_loopback_only_and_none_but_the_proxy_has_others() -> None:
    assert {name: service["ports"] for name, service in SERVICES.items() if "ports" in service} == {
        "web": ["127.0.0.1:${PORT:-8000}:8000"],
        "proxy": ["${HTTP_PORT:-80}:8080", "${HTTPS_PORT:-443}:8443"],
    }


@pytest.mark.parametrize(
    ("allowed", "host"),
    [("", "localhost"), ("*", "localhost"), (".example.org", "example.org"), ("a.example.org, b", "a.example.org")],
)
def test_the_health_check_asks_under_an_allowed_name(allowed: str, host: str) -> None:
    assert ready.host(allowed) == host
