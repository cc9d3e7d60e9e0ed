"""Facts of hosts from trees of files (cases/hosts/*.json), and of this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agents import facts
from agents.errors import HostFailure
from agents.facts.clusters import read_config
from agents.facts.tools import Versions
from agents.host.system import Finished, Stat, System
from tests.agents import recorded
from tests.agents.fakes import FakeSystem


def differences(expected: Any, actual: Any, path: str = "") -> list[str]:
    """Where `actual` is not as expected. Only the expected keys of a dict count; null means that one is absent."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return [
            difference
            for key in expected
            for difference in differences(expected[key], actual.get(key), f"{path}.{key}")
        ]
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [
            difference for n in range(len(actual)) for difference in differences(expected[n], actual[n], f"{path}[{n}]")
        ]
    return [] if expected == actual else [f"{path}: expected {expected!r}, found {actual!r}"]


@pytest.mark.parametrize("name", recorded.names())
def test_facts_match_the_files_of_a_host(name: str) -> None:
    case = recorded.load(name)

    host_facts = facts.full(recorded.RecordedHost(case), pg_data_dirs=case.get("pg_data_dirs", ()))

    assert differences(case["expected"], host_facts) == [], case["what"]


def test_counters_actions_and_secrets_are_no_sysctls() -> None:
    sysctls = facts.full(recorded.RecordedHost(recorded.load("smt_two_nodes")))["sysctls"]

    assert not {"vm.drop_caches", "vm.stat_refresh", "kernel.printk", "net.ipv4.tcp_fastopen_key", "fs.aio-nr"} & set(
        sysctls
    )


def test_facts_of_this_machine_are_complete_and_json() -> None:
    host_facts = facts.full(System())

    assert json.loads(json.dumps(host_facts)) == host_facts
    assert host_facts["cpus"]["threads"] == len(host_facts["cpus"]["topology"]) == os.cpu_count()
    assert {cache["level"] for cache in host_facts["cpus"]["caches"]} >= {1, 2}
    assert any(mount["mounted_on"] == "/" for mount in host_facts["file_systems"])
    assert host_facts["sysctls"]["vm.swappiness"].isdigit() and host_facts["kernel"]["release"] == os.uname().release
    assert all(
        block_device["scheduler"] in block_device["schedulers"]
        for block_device in host_facts["block_devices"]
        if block_device["schedulers"]
    )


def test_an_unreadable_fact_does_not_hide_the_others() -> None:
    host = recorded.RecordedHost(recorded.load("slices_v2"))
    host.files["/proc/self/cgroup"] = "garbage\n"

    host_facts = facts.full(host)

    assert "limits" not in host_facts and host_facts["cpus"]["threads"] == 8
    assert host_facts["unread"]["limits"].startswith("ValueError")


# Versions of programs


class Programs(FakeSystem):
    """Programs whose files can be replaced."""

    def __init__(self) -> None:
        super().__init__({"/proc/sys/kernel/osrelease": "6.1.0-9", "/usr/bin/fio": ""})
        self.marks, self.queries, self.says = {"/usr/bin/fio": 1}, 0, "fio-3.33"

    def stat(self, path: str) -> Stat | None:
        return Stat(0, 100, self.marks[path], 7) if path in self.marks else None

    def run(self, argv: Any, **_: Any) -> Any:
        self.queries += 1
        return Finished(list(argv), 0, self.says, "")


def asked_again(system: Programs, cache: Path) -> bool:
    before = system.queries
    versions = Versions(system, cache)
    assert versions.of("/usr/bin/fio") == "3.33"
    versions.keep()
    return system.queries > before


def test_the_version_of_a_program_is_read_once_until_its_file_changes(tmp_path: Path) -> None:
    system, cache = Programs(), tmp_path / "versions.json"

    assert asked_again(system, cache)
    assert not asked_again(system, cache)
    system.marks["/usr/bin/fio"] = 2
    assert asked_again(system, cache)


def test_the_version_of_a_wrapper_is_read_again_after_an_upgrade_of_its_program(tmp_path: Path) -> None:
    """Debian's /usr/bin/psql stays the same file when a new minor version of PostgreSQL comes in."""
    system, cache = Programs(), tmp_path / "versions.json"
    system.files["/usr/lib/postgresql/15/bin/fio"] = ""
    system.marks["/usr/lib/postgresql/15/bin/fio"] = 1

    asked_again(system, cache)
    system.marks["/usr/lib/postgresql/15/bin/fio"] = 2

    assert asked_again(system, cache)


def test_another_kernel_invalidates_all_cached_versions(tmp_path: Path) -> None:
    system, cache = Programs(), tmp_path / "versions.json"
    asked_again(system, cache)

    system.files["/proc/sys/kernel/osrelease"] = "6.1.0-10"

    assert asked_again(system, cache)


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"a": 1}', "\x00\xff"])
def test_a_broken_cache_is_replaced(tmp_path: Path, broken: str) -> None:
    system, cache = Programs(), tmp_path / "versions.json"
    cache.write_text(broken, encoding="latin-1")

    assert asked_again(system, cache)
    assert not asked_again(system, cache)


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    assert asked_again(Programs(), tmp_path / "nowhere" / "versions.json")


def test_a_version_that_timed_out_is_read_again_the_next_time(tmp_path: Path) -> None:
    class Slow(Programs):
        def run(self, argv: Any, **_: Any) -> Any:
            raise HostFailure("it did not end within 5 s")

    versions = Versions(Slow(), tmp_path / "versions.json")

    assert versions.of("/usr/bin/fio") == ""
    versions.keep()
    assert not (tmp_path / "versions.json").exists()
    assert asked_again(Programs(), tmp_path / "versions.json")


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"),
        ("postgres (PostgreSQL) 19devel", "19devel"),
        ("postgres (PostgreSQL) 18beta1", "18beta1"),
        ("systemd 252 (252.38-1~deb12u1)", "252.38"),
        ("Systemtap translator/driver (version 4.8/0.188, Debian version 4.8-2)", "4.8"),
        ("bpftrace v0.17.0", "0.17.0"),
        ("numastat version: 20130723: Dec 26 2022", "20130723"),
        ("usage: tool [--all | -a]", ""),
    ],
)
def test_a_version_is_read_from_the_output_of_the_program(tmp_path: Path, says: str, version: str) -> None:
    system = Programs()
    system.says = says

    assert Versions(system).of("/usr/bin/fio") == version


# Configuration of clusters


def test_the_last_line_of_a_configuration_counts_in_any_file() -> None:
    system = FakeSystem(
        {
            "/c/postgresql.conf": "port = 1\ninclude 'a.conf'\n# port = 9\nlisten_addresses='it''s'\n",
            "/c/a.conf": "port 2\ninclude_dir = '../d'\n",
            "/d/1.conf": "port=3",
            "/d/2.txt": "port=4",
        }
    )

    parameters = read_config(system, "/c/postgresql.conf")

    assert parameters == {"port": "3", "listen_addresses": "it's", "include_dir": "/d"}


def test_a_configuration_that_includes_itself_ends() -> None:
    assert read_config(FakeSystem({"/c": "port = 1\ninclude 'c'\n"}), "/c") == {"port": "1"}
    assert read_config(FakeSystem({"/c": "port = 1\n" + 9 * "include 'c'\n"}), "/c") == {"port": "1"}
