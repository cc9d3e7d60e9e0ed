"""docker-compose.yml runs what the embedded supervisor runs, and refuses to start without its secrets."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded import commands, places
from embedded.stack import Stack
from embedded.supervisor import Supervisor

COMPOSE: dict[str, Any] = yaml.safe_load((places.CHECKOUT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
SERVER = ("web", "worker", "dispatcher", "beat", "migrate")
OWN = {"dispatcher": {"PROVING_RUNS_AT_ONCE", *commands.DISPATCHER_ENVIRONMENT}}
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
    assert SERVICES[service]["command"] == ["python", *arguments]


def test_the_supervisor_runs_these_commands(state: Path) -> None:
    with Supervisor(state) as supervisor:
        stack = Stack(supervisor)
        assert stack.web.argv[1:] == commands.web(f"127.0.0.1:{stack.port}")
        assert stack.worker.argv[1:] == commands.worker()
        assert stack.dispatcher.argv[1:] == commands.dispatcher()
        assert stack.beat.argv[1:] == commands.beat(f"{supervisor.state}/celerybeat-schedule")
        assert SERVICES["worker"]["stop_signal"] == stack.worker.stop_signal.name


@pytest.mark.parametrize("service", SERVER)
def test_the_server_is_given_every_variable_that_the_supervisor_gives(service: str, state: Path) -> None:
    with Supervisor(state) as supervisor:
        ours = Stack(supervisor).environment()
    given = SERVICES[service]["environment"].keys() - OWN.get(service, set())
    assert given == ours.keys() - {"DJANGO_SETTINGS_MODULE"}


def test_the_dispatcher_lends_as_many_connections_as_the_supervisors() -> None:
    assert SERVICES["dispatcher"]["environment"].items() >= commands.DISPATCHER_ENVIRONMENT.items()


@pytest.mark.parametrize("secret", ["PROVING_SECRET_KEY", "PROVING_SSH_KEYS", "POSTGRES_PASSWORD", "REDIS_PASSWORD"])
def test_a_secret_comes_from_the_environment_and_its_absence_is_told(secret: str) -> None:
    given = " ".join(SERVICES["web"]["environment"].values())
    assert re.search(rf"\$\{{{secret}:\?[^}}]+\}}", given)


@pytest.mark.parametrize("service", sorted(SERVICES.keys() - {"migrate"}))
def test_every_lasting_service_tells_its_health_and_is_restarted(service: str) -> None:
    assert SERVICES[service]["healthcheck"]["test"]
    assert SERVICES[service]["restart"] == "unless-stopped"


def test_named_volumes_are_declared_and_used() -> None:
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service["volumes"]}
    assert used == COMPOSE["volumes"].keys()


def test_only_web_has_a_port_and_on_loopback_only() -> None:
    assert {name: service["ports"] for name, service in SERVICES.items() if "ports" in service} == {
        "web": ["127.0.0.1:${PORT:-8000}:8000"]
    }
