"""Pressure stall information: how much of the time tasks waited for cpu, memory or I/O, on the host and in the server's
own control group.

/proc/pressure/* exists since 4.20 (RHEL 8 and 9 want psi=1 on the kernel's command line), and reading it fails where it
was compiled in and not switched on.
"""

from __future__ import annotations

from ..wire.columns import columns
from .base import Collector, NotAvailable

RESOURCES = ("cpu", "memory", "io", "irq")
_MEANING = {"some": "of the time at least one task waited", "full": "of the time all non-idle tasks waited"}
_PLACES = {"": "pressure", "cgroup.": "pressure in the server's control group"}


def _named(place: str, suffix: str) -> dict[str, str]:
    return {
        f"{place}{resource}.{kind}{suffix}": f"{text}: {resource}"
        for resource in RESOURCES
        for kind, text in _MEANING.items()
    }


class Pressure(Collector):
    name = "pressure"
    help = "Share of time that tasks waited for CPU, memory or I/O (PSI), for the host and the control group"
    columns = {
        name: column
        for place, group in _PLACES.items()
        for name, column in {
            **columns(group, "%", _named(place, ""), better="lower"),
            **columns(f"{group}, mean of 10 s", "%", _named(place, ".avg10"), better="lower", gauge=True),
        }.items()
    }

    def start(self) -> None:
        own = self._cgroup()
        paths = {name: f"/proc/pressure/{name}" for name in RESOURCES}
        paths.update({f"cgroup.{name}": f"{own}/{name}.pressure" for name in RESOURCES if own})
        self._files = {name: self.system.reader(path) for name, path in paths.items() if self.system.text(path)}
        if not self._files:
            raise NotAvailable("the kernel has no pressure stall information; psi=1 on its command line may enable it")
        self._last, self._at = self._read()[1], self.system.mono()

    def sample(self) -> dict[str, float]:
        (means, totals), at = self._read(), self.system.mono()
        interval_us = max(at - self._at, 1e-3) * 1e6
        shares = {
            name: round(min(100.0, max(0.0, total - self._last.get(name, total)) * 100 / interval_us), 2)
            for name, total in totals.items()
        }
        self._last, self._at = totals, at
        return {**shares, **means}

    def _cgroup(self) -> str:
        """The directory of the postmaster's group in the unified hierarchy, "" for the root: that is the host."""
        listed = self.system.text(f"/proc/{self.subject.postmaster}/cgroup") if self.subject.postmaster else ""
        path = next((line[len("0::") :] for line in listed.splitlines() if line.startswith("0::")), "/")
        return "" if path == "/" else f"/sys/fs/cgroup{path}"

    def _read(self) -> tuple[dict[str, float], dict[str, float]]:
        means, totals = dict[str, float](), dict[str, float]()
        for name, file in self._files.items():
            for kind, (mean, total) in parse(file.text()).items():
                means[f"{name}.{kind}.avg10"], totals[f"{name}.{kind}"] = mean, total
        return means, totals


def parse(text: str) -> dict[str, tuple[float, float]]:
    """{"some": (avg10 in %, total in us), "full": ...}; kernels before 5.13 know no full for cpu."""
    rows = (line.split() for line in text.splitlines())
    fields = {row[0]: dict(word.split("=") for word in row[1:]) for row in rows}
    return {kind: (float(values["avg10"]), float(values["total"])) for kind, values in fields.items()}
