"""Campaigns from the command line, with a running server."""

from __future__ import annotations

import inspect
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from apps.accounts.models import Membership, Role, Team, User
from apps.campaigns import recipes
from apps.campaigns.models import Campaign, Run
from apps.decisions.api.views import DecisionSerializer
from apps.decisions.models import Decision
from apps.hosts.models import Host
from proving.__main__ import app
from proving.commands.decide import decide
from tests.cli import reference
from tests.cli.program import Program
from tests.rows.factories import end_run, make_campaign, make_host, make_twin

pytestmark = pytest.mark.thorough

RECIPE = "cpu-scaling"
EXPORT = "tests/samples/pgbench"


@pytest.fixture
def host(people: dict[Role, User]) -> Host:
    return make_host("db1")


@pytest.fixture
def finished(people: dict[Role, User], host: Host) -> Campaign:
    """Two cpus are nearly twice as fast as one, six times."""
    return make_campaign(Campaign.State.FINISHED, by=people[Role.TUNER], host=host, repetitions=6, name="Cpus")


def level(campaign: Campaign, label: str) -> str:
    return f"{campaign.pk}:{label}"


@pytest.mark.fast
def test_hosts_are_listed(proving: Program, host: Host) -> None:
    assert [row["name"] for row in proving.json("hosts")] == ["db1"]
    assert "db1" in proving.run("hosts").stdout


def test_a_host_whose_check_failed_is_listed_as_not_ready(proving: Program, host: Host) -> None:
    reason = "free space for /pg: 165 MiB, needs at least 1,024 MiB"
    Host.objects.filter(pk=host.pk).update(state=Host.State.UNFIT, state_reason=reason)

    listed = " ".join(proving.run("hosts").stdout.split())

    assert "db1 not ready" in listed and "unfit" not in listed
    assert proving.json("hosts")[0]["state"] == "unfit"


@pytest.mark.fast
def test_a_campaign_from_a_recipe_is_started(proving: Program, host: Host) -> None:
    made = proving.json("run", RECIPE, "--host", "db1", "--repetitions", "4", "--delta", "5", "--name", "Tonight")

    campaign = Campaign.objects.get(pk=made["id"])
    assert (campaign.state, campaign.name, campaign.repetitions, campaign.delta) == ("running", "Tonight", 4, 0.05)
    assert campaign.runs.count() == 3 * 4


def test_a_draft_is_checked_against_its_host(proving: Program, host: Host) -> None:
    sets = ["--set", "settings.postgresql.shared_buffers=1TB"]
    made = proving.json("run", RECIPE, "--host", "db1", "--draft", *sets)

    checked = proving.run("check", made["id"][:8], "--json")

    row = next(load for load in json.loads(checked.stdout) if load["check"] == "memory")
    assert checked.returncode == 1
    assert (row["ok"], row["field"], row["value"]) == (False, "settings.postgresql.shared_buffers", "1TB")
    refused = proving.run("start", made["id"][:8])
    assert (refused.returncode, "field: settings.postgresql.shared_buffers" in refused.stderr) == (2, True)


def test_levels_are_chosen_by_label_and_values_by_path(proving: Program, host: Host) -> None:
    sets = ["--set", "server cpus=1 cpu,2 cpus", "--set", "settings.postgresql.work_mem=4MB,64MB"]
    made = proving.json("run", RECIPE, "--host", "db1", "--draft", *sets, "--set", "workload.time_s=2")

    cpus, work_mem = made["factors"]
    assert [each["label"] for each in cpus["levels"]] == ["1 cpu", "2 cpus"]
    assert cpus["levels"][0]["set"] == {"settings.cpu_affinity.server": "0", "workload.time_s": 2}
    assert work_mem["levels"][1] == {"label": "64MB", "set": {"settings.postgresql.work_mem": "64MB"}}


def test_an_unknown_factor_is_refused_by_its_name(proving: Program, host: Host) -> None:
    done = proving.run("run", RECIPE, "--host", "db1", "--set", "gpus=1,2")

    assert done.returncode == 2
    assert done.stderr.splitlines()[:3] == ["error: 'gpus' is not a factor", "  field: --set", "  value: gpus=1,2"]


def test_a_refusal_of_the_server_has_field_value_and_what_is_accepted(proving: Program, host: Host) -> None:
    refused = ["run", RECIPE, "--host", "db1", "--set", "settings.cpu_affinity.server=0,7"]

    done = proving.run(*refused)
    error = json.loads(proving.run(*refused, "--json").stderr)["error"]

    assert done.returncode == error["exit_code"] == 2
    assert error["field"] and error["message"] and error["accepted"]
    assert f"accepted: {error['accepted']}" in done.stderr


def test_a_value_that_is_refused_is_shown(proving: Program, host: Host) -> None:
    done = proving.run("run", RECIPE, "--host", "db1", "--repetitions", "5000")

    assert done.returncode == 2
    assert {"  field: repetitions", "  value: 5000"} <= set(done.stderr.splitlines())


def test_an_unknown_host_or_recipe_exits_with_2(proving: Program, host: Host) -> None:
    unknown = proving.run("run", RECIPE, "--host", "db9")

    assert (unknown.returncode, "accepted: db1" in unknown.stderr) == (2, True)
    assert proving.run("run", "nonsense", "--host", "db1").returncode == 2


def test_an_insufficient_role_exits_with_4(program: Callable[..., Program], host: Host) -> None:
    done = program(Role.VIEWER).run("run", RECIPE, "--host", "db1")

    assert done.returncode == 4
    assert "is viewer; this needs operator" in done.stderr


def test_ctrl_c_leaves_the_campaign_running_and_says_so(proving: Program, host: Host) -> None:
    watching = proving.start("run", RECIPE, "--host", "db1", "--watch")
    assert watching.stderr is not None
    assert watching.stderr.readline().startswith("campaign ")
    assert watching.stderr.readline().startswith("running: 0/9 runs")

    watching.send_signal(signal.SIGINT)
    _, stderr = watching.communicate(timeout=90)

    campaign = Campaign.objects.get()
    assert (watching.returncode, campaign.state) == (130, "running")
    assert f"continues. To follow it: proving watch {str(campaign.pk)[:8]}" in stderr


def test_watching_ends_with_the_campaign_and_fails_where_a_run_did(proving: Program, people: Any, host: Host) -> None:
    campaign = make_campaign("running", 5, by=people[Role.TUNER], host=host)
    watching = proving.start("watch", str(campaign.pk)[:8])
    assert watching.stderr is not None
    assert "5/6 runs" in watching.stderr.readline()

    end_run(campaign.runs.get(state=Run.State.QUEUED), Run.Outcome.FAILED)
    Campaign.objects.update(state=Campaign.State.FINISHED, ended_at=campaign.created_at)
    output, _ = watching.communicate(timeout=90)

    assert watching.returncode == 1
    assert "6/6 runs, 1 failed" in output


def test_campaigns_are_listed_and_shown(proving: Program, finished: Campaign) -> None:
    assert [row["name"] for row in proving.json("ls", "--host", "db1", "--state", "finished")] == ["Cpus"]
    assert proving.json("ls", "--state", "draft") == []
    assert {"cpu-scaling"} <= {row["name"] for row in proving.json("ls", "recipes")}
    shown = proving.run("show", "Cpus").stdout
    assert "2 cpus" in shown and "▲ better" in shown and "is better than" in " ".join(shown.split())
    assert proving.json("show", "last")["campaign"]["id"] == str(finished.pk)


def test_a_name_that_two_have_is_ambiguous(proving: Program, finished: Campaign, people: Any) -> None:
    make_campaign(by=people[Role.TUNER], name="Cpus")

    done = proving.run("show", "Cpus")

    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: 2 campaigns match")


def test_worse_by_more_than_delta_exits_with_3_and_better_with_0(proving: Program, finished: Campaign) -> None:
    one, two = level(finished, "1 cpu"), level(finished, "2 cpus")

    worse, better = proving.run("compare", two, one), proving.run("compare", one, two)

    assert (worse.returncode, better.returncode) == (3, 0)
    assert "1 cpu is worse than 2 cpus: tps" in " ".join(worse.stdout.split())
    assert proving.json("compare", "Cpus")["worse"] is False
    assert proving.json("compare", two, one, "--delta", "60", code=0)["worse"] is False


def test_an_inconclusive_comparison_exits_with_0_or_5_if_strict(proving: Program, people: Any, host: Host) -> None:
    few = make_campaign(Campaign.State.FINISHED, by=people[Role.TUNER], host=host, repetitions=2)

    assert proving.run("compare", str(few.pk)).returncode == 0
    assert proving.run("compare", str(few.pk), "--strict").returncode == 5


def test_a_verdict_that_rests_on_a_twin_shows_its_fidelity(proving: Program, finished: Campaign) -> None:
    twin = make_twin()
    Campaign.objects.filter(pk=finished.pk).update(workload=twin.workload, dataset=twin.dataset)

    shown = " ".join(proving.run("compare", level(finished, "1 cpu"), level(finished, "2 cpus")).stdout.split())

    assert "twin, fidelity unknown" in shown
    assert "Its fidelity is unknown: no run counted its statements." in shown


def test_a_decision_is_written_and_accepted(proving: Program, finished: Campaign) -> None:
    options = ["--title", "Two cpus", "--decision", "Two", "--reasons", "Faster", "--host", "db1"]
    created = proving.json("decide", "Cpus", *options)

    decision = Decision.objects.get(pk=created["id"])
    assert (decision.title, decision.campaign_id, decision.status) == ("Two cpus", finished.pk, "proposed")
    assert [each.name for each in decision.hosts.all()] == ["db1"]


def test_a_decision_on_a_level_decides_its_settings_within_a_scope(
    proving: Program, finished: Campaign, people: dict[Role, User]
) -> None:
    Membership.objects.create(team=Team.objects.create(name="dba"), user=people[Role.TUNER], role=Role.TUNER)
    Host.objects.update(labels=["oltp"])
    chosen = finished.runs.latest("position")
    texts = ["--title", "Two cpus", "--decision", "Two", "--question", "How many?", "--options", "One is slower"]
    scope = ["--label", "oltp", "--label", "ssd", "--postgresql-from", "17", "--postgresql-to", "19"]
    scope += ["--kernel-from", "5.10", "--kernel-to", "6.12", "--review-on", "2030-01-31", "--team", "dba"]

    created = proving.json("decide", "Cpus", "--level", chosen.label, *texts, *scope)

    decision = Decision.objects.get(pk=created["id"])
    assert decision.level == chosen.label and decision.settings == chosen.spec["settings"] != {}
    assert (decision.question, decision.options, str(decision.team)) == ("How many?", "One is slower", "dba")
    assert (decision.labels, [host.name for host in decision.hosts.all()]) == (["oltp", "ssd"], ["db1"])
    assert (decision.postgresql_from, decision.postgresql_to) == (17, 19)
    assert (decision.kernel_from, decision.kernel_to, str(decision.review_on)) == ("5.10", "6.12", "2030-01-31")


def test_every_input_of_a_decision_is_an_option_of_the_command() -> None:
    fields = DecisionSerializer().get_fields()
    inputs = {name for name, field in fields.items() if not field.read_only}

    taken = set(inspect.signature(decide).parameters)

    assert inputs - {"hosts", "labels"} | {"host", "label"} == taken - {"ctx", "accept", "json"}


@pytest.mark.parametrize(
    ("options", "message"), [(["--level", "cpus=64"], "was not run"), (["--team", "x"], "no team")]
)
def test_a_decision_on_an_unknown_level_or_team_is_refused(
    proving: Program, finished: Campaign, options: list[str], message: str
) -> None:
    refused = proving.run("decide", "Cpus", "--title", "Two", "--decision", "Two", *options)

    assert refused.returncode == 2 and message in refused.stderr
    assert not Decision.objects.exists()


def test_a_campaign_leaves_as_a_file(proving: Program, finished: Campaign) -> None:
    exported = proving.json("export", "Cpus", "runs.csv", "-o", "out.csv")

    written = (proving.home / "out.csv").read_bytes()
    assert exported == {"file": "out.csv", "bytes": len(written)}
    assert written.count(b"\n") == 1 + 12
    assert proving.run("export", "Cpus", "runs.csv", "-o", "-").stdout == written.decode().replace("\r\n", "\n")
    refused = proving.run("export", "Cpus", "runs.xls")
    assert (refused.returncode, "runs.csv" in refused.stderr) == (2, True)
    assert sorted(each.name for each in proving.home.iterdir()) == ["bin", "out.csv"]


TABLE = "policy,tps\n" + "".join(f"{policy},{1000 + n}\n" for policy in ("none", "bind") for n in range(3))


def test_old_results_become_a_campaign_once(proving: Program, tmp_path: Path) -> None:
    table = tmp_path / "old.csv"
    table.write_text(TABLE)
    options = ["--name", "Old", "--question", "Does it matter?", "--host", "old-host", "--metric", "tps"]

    draft = proving.json("import", str(table), *options, "--draft")
    made = proving.json("import", str(table), *options)

    assert (draft["count"], made["name"], made["progress"]["total"]) == (6, "Old", 6)
    assert proving.json("import", str(table))["id"] == made["id"]


def test_options_for_contents_that_were_imported_before_change_nothing_and_say_so(
    proving: Program, tmp_path: Path
) -> None:
    table = tmp_path / "old.csv"
    table.write_text(TABLE)
    options = ["--question", "Does it matter?", "--host", "old-host", "--metric", "tps"]
    made = proving.json("import", str(table), "--name", "Old", *options)

    again = proving.run("import", str(table), "--name", "New", "--json")

    assert json.loads(again.stdout)["name"] == made["name"] == "Old"
    assert "imported before, so --name changes nothing" in again.stderr


def test_a_recipe_is_imported(proving: Program) -> None:
    text = (recipes.FOLDER / "cpu-scaling.yaml").read_text().replace("name: cpu-scaling", "name: ours")
    (proving.home / "bin").mkdir(parents=True)
    (proving.home / "ours.yaml").write_text(text)

    made = proving.json("import", "ours.yaml")

    assert (made["name"], made["version"]) == ("ours", 1)


def test_a_campaign_is_started_and_cancelled(proving: Program, host: Host) -> None:
    made = proving.json("run", RECIPE, "--host", "db1", "--draft")

    assert proving.json("start", made["id"])["state"] == "running"
    assert proving.json("cancel", "last")["state"] == "cancelled"
    assert proving.run("start", "last").returncode == 2


def test_waiting_without_a_running_campaign_ends_at_once(proving: Program, finished: Campaign) -> None:
    assert proving.run("watch", "last").returncode == 0


def test_an_archived_campaign_is_listed_only_among_the_archived_ones(proving: Program, finished: Campaign) -> None:
    archived = proving.run("archive", "Cpus")
    assert archived.stdout.strip().endswith("Cpus: finished, archived")
    assert proving.json("ls") == []
    assert [row["name"] for row in proving.json("ls", "--archived")] == ["Cpus"]

    proving.run("unarchive", "Cpus")

    assert [row["name"] for row in proving.json("ls")] == ["Cpus"]
    assert proving.json("ls", "--archived") == []


def test_an_archived_campaign_resolves_by_name_but_not_as_last(
    proving: Program, finished: Campaign, host: Host
) -> None:
    newest = make_campaign(Campaign.State.FINISHED, host=host, name="Mistake")
    proving.run("archive", "Mistake")

    assert proving.json("show", "last")["campaign"]["id"] == str(finished.pk)
    assert proving.json("show", "Mistake")["campaign"]["id"] == str(newest.pk)


def test_only_a_campaign_that_has_ended_is_archived(proving: Program, host: Host) -> None:
    make_campaign(host=host, name="Draft")

    refused = proving.run("archive", "Draft")

    assert refused.returncode == 2
    assert "only a campaign that has ended can be archived" in refused.stderr


def test_every_argument_and_option_has_a_help_text() -> None:
    group = typer.main.get_command(app)

    without = [
        f"{name} {param.name}"
        for name, command in reference.leaves(group)
        for param in command.params
        if not getattr(param, "help", "")
    ]

    assert without == []
