"""A profile as files: each format has the settings that it supports, and lists the others in a comment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.settings.base import Hold, Plan, Write
from apps.tuning import effects, exports
from apps.tuning.effects import DryRun, Effect

FACTS = json.loads((Path(__file__).parents[2] / "agents/cases/facts.json").read_text())
WANTED: dict[str, Any] = {
    "cpu_affinity": {"server": "0-1", "client": "2"},
    "numa": {"policy": "interleave", "nodes": "all"},
    "transparent_huge_pages": {"enabled": "never", "defrag": "madvise"},
    "huge_pages": {"use": "on", "pool": 700},
    "postgresql": {"shared_buffers": "1GB", "log_line_prefix": "it's %m"},
}
GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"


def render(kind: str, settings: dict[str, Any], **facts: Any) -> list[str]:
    run = effects.dry_run({**FACTS, **facts}, settings)
    return exports.FORMATS[kind].render("oltp r2 on bench-01", run).splitlines()


def commands(lines: list[str]) -> list[str]:
    return [line for line in lines if line and not line.startswith("#")]


def test_sysctl_d_has_the_keys_of_proc_sys_and_the_rest_as_comments() -> None:
    lines = render("sysctl", WANTED)

    assert commands(lines) == ["vm.nr_hugepages = 700"]
    assert "# transparent_huge_pages: echo never > /sys/kernel/mm/transparent_hugepage/enabled" in lines
    assert "# numa: numactl --interleave=0-1 postgres -D $PGDATA" in lines
    assert "# postgresql: shared_buffers = '1GB'" in lines


def test_postgresql_conf_has_parameters_quoted_as_its_grammar_wants() -> None:
    lines = render("postgresql", WANTED)

    assert commands(lines) == ["huge_pages = 'on'", "shared_buffers = '1GB'", "log_line_prefix = 'it''s %m'"]
    assert "# huge_pages: sysctl -w vm.nr_hugepages=700" in lines


class Tasks(yaml.SafeLoader):
    """YAML as Ansible reads it: !unsafe is a string that is no template."""


Tasks.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def test_ansible_has_tasks_whose_values_are_no_templates() -> None:
    text = "\n".join(render("ansible", WANTED))

    tasks = {task.pop("name"): task for task in yaml.load(text, Tasks)}

    assert tasks["vm.nr_hugepages"]["ansible.posix.sysctl"]["value"] == "700"
    thp = "/sys/kernel/mm/transparent_hugepage/enabled"
    assert tasks[thp] == {"ansible.builtin.shell": f"echo never > {thp}"}
    assert "log_line_prefix = 'it''s %m'\n" in tasks["PostgreSQL parameters"]["ansible.builtin.copy"]["content"]
    assert "# numa: numactl --interleave=0-1 postgres -D $PGDATA" in text
    prefixes = (each for each in ("    name: ", "value: ", "shell: ", "content: "))
    assert text.count("!unsafe") == sum(map(text.count, prefixes))


def test_tuned_uses_options_of_its_plugins_where_they_exist() -> None:
    lines = render("tuned", WANTED)

    assert commands(lines) == [
        "[main]",
        "summary=oltp r2 on bench-01",
        "[vm]",
        "transparent_hugepages=never",
        "transparent_hugepage.defrag=madvise",
        "[sysctl]",
        "vm.nr_hugepages=700",
    ]
    assert "# cpu_affinity: taskset -c 0-1 postgres -D $PGDATA" in lines


def test_a_script_writes_settings_before_the_start_command() -> None:
    lines = render("shell", WANTED)

    body = lines[lines.index("set -eu") :]
    assert body[3] == "echo \"huge_pages = 'on'\" >> $PGDATA/postgresql.conf"
    assert "sysctl -w vm.nr_hugepages=700" in body
    assert body[-2:] == [
        "#   taskset -c 0-1 numactl --interleave=0-1 postgres -D $PGDATA",
        "#   taskset -c 2 pgbench ...",
    ]


@pytest.mark.parametrize("kind", exports.FORMATS)
def test_a_refused_setting_is_a_comment_and_not_written(kind: str) -> None:
    lines = render(kind, {"cpu_affinity": {"server": "99"}, "postgresql": {"work_mem": "4MB"}})

    assert "# refused: cpu_affinity.server = '99'; accepted: CPUs that are online: 0-7" in lines
    assert not any("taskset" in line for line in lines)


@pytest.mark.parametrize("kind", exports.FORMATS)
def test_a_setting_that_changes_nothing_is_named(kind: str) -> None:
    assert '# numa = {"policy": "default"} changes nothing permanently' in render(kind, {"numa": {"policy": "default"}})


class Anything(effects.Setting):
    """A setting that does not exist, for plans of any shape."""

    name, title, help, schema = "any", "Any", "for a test", {"type": "object"}

    def plan(self, facts: Any, requested: Any) -> Plan:
        return Plan()


def write(key: str, value: str) -> Plan:
    return Plan(writes=[Write(key, value)])


def planned(plan: Plan) -> DryRun:
    return DryRun([Effect(Anything(), {}, plan, list(effects.items_of("any", plan)), [])], "root")


@pytest.mark.parametrize(
    ("plan", "section", "option"),
    [
        (write("/sys/block/vda/queue/scheduler", "none"), "[disk_vda]", "elevator=none"),
        (write("/sys/block/vda/queue/read_ahead_kb", "4096"), "[disk_vda]", "readahead=4096"),
        (write("/sys/block/vda/queue/nr_requests", "64"), "[sysfs]", "/sys/block/vda/queue/nr_requests=64"),
        (write(GOVERNOR.format(3), "performance"), "[cpu]", "governor=performance"),
        (Plan(holds=[Hold("/dev/cpu_dma_latency", bytes(4), "0")]), "[cpu]", "force_latency=0"),
        (write("/proc/sys/net/ipv4/conf/eth0.1/rp_filter", "0"), "[sysctl]", "net/ipv4/conf/eth0.1/rp_filter=0"),
    ],
)
def test_a_write_goes_to_the_plugin_of_tuned_that_knows_it(plan: Plan, section: str, option: str) -> None:
    lines = exports.tuned("x", planned(plan)).splitlines()

    body = lines[lines.index(section) :]
    assert option in body
    assert section != "[disk_vda]" or body[1:3] == ["type=disk", "devices=vda"]


def test_one_governor_of_many_cpus_is_written_once() -> None:
    writes = [Write(GOVERNOR.format(cpu), "performance") for cpu in range(64)]

    assert exports.tuned("x", planned(Plan(writes=writes))).count("governor=performance") == 1


def test_a_value_known_only_to_the_server_is_a_comment_where_no_shell_reads_it() -> None:
    auto = {"huge_pages": {"use": "on"}}

    for kind in ("sysctl", "tuned"):
        assert not any("nr_hugepages" in line for line in commands(render(kind, auto)))
        assert any("$(postgres" in line for line in render(kind, auto))


def test_systemd_directives_for_a_prefix_are_added_to_it() -> None:
    plan = Plan(server_prefix=["taskset", "-c", "0-3"], unit={"CPUAffinity": "0-3"})

    for render_ in (exports.postgresql, exports.tuned):
        lines = render_("x", planned(plan)).splitlines()
        assert "#   CPUAffinity=0-3" in lines


@pytest.mark.parametrize("kind", exports.FORMATS)
def test_no_value_breaks_out_of_its_line(kind: str) -> None:
    run = planned(Plan(conf={"a": "1"}, initdb={"--locale": "C\nrm -rf /"}))

    lines = exports.FORMATS[kind].render("title", run).splitlines()

    assert "rm -rf /" not in lines


def test_a_script_takes_the_device_below_the_data_from_its_environment() -> None:
    settings = {"block_device": {"data": {"scheduler": "none"}}}

    script, tuned = render("shell", settings), render("tuned", settings)

    assert ': "${DATA:?the device below it, as in /sys/block}"' in script
    assert 'echo none > "/sys/block/$DATA/queue/scheduler"' in script
    assert '# block_device: echo none > "/sys/block/$DATA/queue/scheduler"' in tuned


def test_a_latency_limit_is_set_by_tuned_and_by_a_shell() -> None:
    settings = {"cpu_power": {"latency_us": 50}}

    assert "force_latency=50" in render("tuned", settings)
    assert any("printf '\\062\\000\\000\\000' >&3" in line for line in render("shell", settings))
