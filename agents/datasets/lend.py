"""A data set for a run: present and pristine before its first step, and its state after the last one.

A run that only reads uses the pristine database itself. One that writes uses the database that reset.py chose, which
never counts as pristine again. Databases of runs that died are recognised by names and states, and dropped at the next
use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional

from ..host import owned
from ..postgres import load_role
from ..records.shelf import PREFIX, WORK, Shelf, database_of
from ..records.spool import Record
from ..wire.protocol import REBOOT
from ..workloads import WORKLOADS
from . import DATASETS, contents, reset
from .base import ABSENT, DIRTY, PREPARING, PRISTINE, STEP
from .making import Making, Tools, check_room, identify

if TYPE_CHECKING:
    from ..postgres.instance import Target
    from ..run.running import Run

STATISTICS = "postgresql"  # the collector
SHOWN = 50  # relations reported to the server; a partitioned table has thousands
STRATEGIES = 15  # CREATE DATABASE knows them; before, it always copied files
FORCE = 13
COPIES = ("copy", "clone")


def lend(run: Run) -> Loan:
    """The data set that a run's spec names, with the cluster's database of the load set to it."""
    loan = _Stored(run, run.cluster.home) if run.cluster and run.cluster.home else _Temporary(run)
    run.begin(STEP)
    loan.ready()
    return loan


class Loan(ABC):
    """The data set of one run."""

    home = ""

    def __init__(self, run: Run) -> None:
        self._run, self._tools = run, Tools(run)
        self._cluster: Target = self._tools.cluster
        self._request: Record = run.spec["dataset"]
        self._data, self._options = DATASETS[self._request["kind"]], self._request["options"]
        self._name = str(self._request.get("name") or self._request["kind"])
        self.fingerprint = str(self._request.get("fingerprint") or identify(self._tools, self._data, self._options))
        self._used: Record = {}

    @abstractmethod
    def ready(self) -> None:
        """Prepare the data before the first step."""

    @abstractmethod
    def settle(self) -> None:
        """Return what the run did to the data, after the last step."""

    def _making(self, database: str) -> Making:
        return Making(self._tools, database, self._data, self._options, self.fingerprint)

    def _use(self, means: str, reason: str, begin: float) -> None:
        seconds = round(self._run.system.mono() - begin, 3)
        self._used = {"means": means, "reason": reason, "seconds": seconds, "wrote": None}
        self._run.log("info", f"data set {self._name}: {means} in {seconds:.1f} s: {reason}")

    def _tell(self, entry: Record, fingerprint: str = "") -> None:
        """Report the present state of the data set, or of another one, to the server."""
        relations = entry.get("relations", {})
        largest = sorted(relations, key=lambda name: -relations[name][1])[:SHOWN]
        event: dict[str, Any] = {
            "fingerprint": fingerprint or self.fingerprint,
            "home": self.home,
            "name": self._name,
            "kind": self._request["kind"],
            "options": self._options,
            "major": self._cluster.major,
            **{name: entry.get(name) for name in ("database", "state", "size", "seconds", "made_by", "made_at")},
            "relations": {name: {"bytes": relations[name][1], "rows": relations[name][2]} for name in largest},
            "used": self._used or None,
        }
        self._run.emit("dataset", event)


class _Temporary(Loan):
    """In an existing cluster, the database of the load is created for each run, and dropped after it."""

    def ready(self) -> None:
        making, begin = self._making(self._cluster.database), self._run.system.mono()
        making.resumable()  # after a planned restart of the host all of it is there
        making.go()
        reason = "an existing cluster: the database is created for each run and dropped afterwards"
        self._use("prepared", reason, begin)
        entry = {"state": PRISTINE, "database": self._cluster.database, "seconds": list(making.seconds.items())}
        self._tell({**entry, **contents.measured(self._cluster, self._cluster.database)})

    def settle(self) -> None:
        """It goes with its database."""


class _Stored(Loan):
    """In a private cluster, it stays for later runs."""

    def __init__(self, run: Run, home: Path) -> None:
        super().__init__(run)
        self.home, self._path = str(home), home
        self._shelf = Shelf(home)
        self._database = database_of(self.fingerprint)
        self._work = f"{self._database}{WORK}"
        self._before = ""
        self._state: Optional[contents.State] = None  # of the pristine database, before this run

    @property
    def _entry(self) -> Record:
        return self._shelf.get(self.fingerprint) or {}

    def ready(self) -> None:
        there = self._clear()
        begin = self._run.system.mono()
        if self._request.get("ensure") == "absent":
            self._remove(begin)
        elif self._at_work():
            self._lend(reset.Choice("copy", "the copy from before the restart of the host"), begin)
        else:
            made = not self._usable(there) and self._make()
            choice = self._choose()
            begin = begin if choice.means == "prepared" else self._run.system.mono()
            more = ", and it had to be created first" if made else ""
            self._lend(reset.Choice(choice.means, choice.reason + more), begin)

    # There and pristine

    def _clear(self) -> Mapping[str, str]:
        """Drop databases of runs that died, and files of databases whose creation was interrupted. Returns the
        databases that remain, as `contents.databases` does."""
        if self._entry.get("state") == PRISTINE:
            if STATISTICS in self._run.spec["collect"]["sources"]:  # which keeps the session open in any case
                self._cluster.connect(self._database)
            there, self._state = contents.databases_and_state(self._cluster, self._database)
        else:
            there = contents.databases(self._cluster)
        known = {entry["database"] for entry in self._shelf.all.values()} | ({self._work} if self._at_work() else set())
        lost = [name for name in there if name.startswith(PREFIX) and name not in known]
        for name in lost:
            self._run.log("info", f"dropping {name}, left by an earlier run")
            self._drop(name)
        if lost:
            there = contents.databases(self._cluster)
        for directory in contents.orphans(self._cluster, there):
            self._run.log("info", f"removing {directory}: its database was never completed")
            owned.remove_tree(directory)
        return there

    def _at_work(self) -> bool:
        """Whether this very run has a work database, having restarted its host."""
        mine = self._entry.get("work_of") == self._run.job.run
        return mine and self._work in contents.databases(self._cluster)

    def _drop(self, name: str) -> None:
        force = " with (force)" if self._cluster.major >= FORCE else ""
        self._tools.own("drop", "postgres", f"drop database if exists {name}{force}")

    def _remove(self, begin: float) -> None:
        if self._entry:
            self._shelf.put(self.fingerprint, state=DIRTY)
        self._drop(self._database)
        self._shelf.drop(self.fingerprint)
        self._use("removed", "as asked", begin)
        self._tell({"state": ABSENT, "database": self._database})

    def _usable(self, databases: Mapping[str, str]) -> bool:
        """Whether it can be had as it lies there. A crash empties unlogged tables, and people have superusers."""
        entry = self._entry
        if entry.get("state") not in (PRISTINE, DIRTY):
            return False
        there = self._database in databases
        if entry["state"] == DIRTY:
            return there and self._request.get("reset") == "keep"
        changed = "does not exist"
        if there:
            changed = contents.changed(self._cluster, self._database, entry["relations"], self._state)
        if changed:
            self._run.log("warning", f"{self._database} was changed: {changed}; creating it again")
            self._shelf.put(self.fingerprint, state=DIRTY)
        return not changed

    def _drop_outdated(self) -> None:
        """Drop the data of the same definition whose file on the host has changed since: no run can use them."""
        definition = {"kind": self._request["kind"], "options": self._options}
        for fingerprint, entry in list(self._shelf.all.items()):
            if fingerprint != self.fingerprint and definition.items() <= entry.items():
                self._run.log("warning", f"data set {self._name} has changed on the host: creating it again")
                self._shelf.put(fingerprint, state=DIRTY)
                self._drop(entry["database"])
                self._shelf.drop(fingerprint)
                self._tell({"state": ABSENT, "database": entry["database"]}, fingerprint)

    def _make(self) -> bool:
        self._drop_outdated()
        making, preparing = self._making(self._database), self._entry.get("state") == PREPARING
        resumed = preparing and self._database in contents.databases(self._cluster) and making.resumable()
        self._begin_making()
        if resumed:
            self._run.log("info", f"{self._database} continues after {', '.join(making.seconds)}, which are done")
        else:
            self._drop(self._database)
            check_room(self._run, self.home, *self._data.room(self._name, self._options, self._tools))
            role = self._cluster.load_role
            owner = self._cluster.owned_by
            self._tools.own("create", "postgres", f"create database {self._database} template template0{owner}")
            if role:
                self._tools.own("grant", self._database, *load_role.extensions(role))
        making.go()
        # Counters at zero, so that a write shows; what its relations are, so that a loss shows.
        measured = contents.measured(self._cluster, self._database)
        contents.reset_counters(self._cluster, self._database)
        made = {"seconds": list(making.seconds.items()), "made_at": self._run.system.wall()}
        self._tell(self._shelf.put(self.fingerprint, state=PRISTINE, **made, **measured))
        return True

    def _begin_making(self) -> None:
        about = {"name": self._name, "kind": self._request["kind"], "options": self._options}
        where = {"major": self._cluster.major, "database": self._database, "made_by": self._run.job.run}
        self._tell(self._shelf.put(self.fingerprint, state=PREPARING, **about, **where))

    # The data set of a run

    def _choose(self) -> reset.Choice:
        steps = [step for step in self._run.spec["steps"] if step["kind"] != REBOOT]
        serve = self._run.spec.get("serve") or {}
        if not steps and not serve:
            return reset.Choice("prepared", "for later runs")
        writes = serve.get("writes", False) or any(WORKLOADS[step["kind"]].writes(step["options"]) for step in steps)
        policy = self._request.get("reset", "auto")
        places = self._places() if writes and policy in ("auto", "copy") else []
        return reset.choose(policy, writes, self._cluster.major, places)

    def _places(self) -> list[reset.Place]:
        by_path = contents.sizes(self._cluster, self._database, self.home)
        return [self._place(path, size) for path, size in by_path.items()]

    def _place(self, path: str, size: int) -> reset.Place:
        space = self._run.system.space(path)
        clones = self._cluster.major >= reset.CLONES and reset.clones(Path(path))
        return reset.Place(path, size, space[1] * 1024 if space else 0, clones)

    def _lend(self, choice: reset.Choice, begin: float) -> None:
        if choice.means in COPIES and not self._at_work():
            self._copy(choice.means == "clone")
        if choice.means in ("reinit", "keep"):
            # Recorded before the first write, not after the last.
            self._before = self._entry["state"]
            self._shelf.put(self.fingerprint, state=DIRTY)
        self._cluster.database = self._work if choice.means in COPIES else self._database
        self._use(choice.means, choice.reason, begin)
        self._tell(self._shelf.put(self.fingerprint, used_at=self._run.system.wall()))

    def _copy(self, clone: bool) -> None:
        strategy = " strategy file_copy" if self._cluster.major >= STRATEGIES else ""
        self._drop(self._work)
        self._shelf.put(self.fingerprint, work_of=self._run.job.run)
        self._tools.progress(0.0, None, f"copying {self._database}")
        create = f"create database {self._work} template {self._database}{self._cluster.owned_by}{strategy}"
        self._tools.own("copy", "postgres", *["set file_copy_method = clone"] * clone, create)

    # The state of the data set afterwards

    def settle(self) -> None:
        means = self._used["means"]
        if means in ("prepared", "removed"):
            return
        contents.settle_counters(self._run.system, self._cluster)
        if means in COPIES:
            self._used["wrote"] = contents.written(self._cluster, self._work) > 0
            self._cluster.database = "postgres"
            self._drop(self._work)
            self._shelf.put(self.fingerprint, work_of="")
        else:
            changed = contents.changed(self._cluster, self._database, self._entry["relations"])
            self._used["wrote"] = bool(changed)
            self._judge(means, changed)
        self._tell(self._entry)

    def _judge(self, means: str, changed: str) -> None:
        if means == "pristine" and changed:
            self._run.log(
                "warning",
                (
                    f"no step of this run is known to write, but {changed}: {self._database} is created again at its "
                    "next use"
                ),
            )
            self._shelf.put(self.fingerprint, state=DIRTY)
        elif means != "pristine" and not changed and self._before == PRISTINE:
            self._shelf.put(self.fingerprint, state=PRISTINE)
