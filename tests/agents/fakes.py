"""A simulated machine: its files and commands are text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.host.reader import Reader
from agents.host.system import Stat, System


class FakeReader(Reader):
    """Reads a file of text each time."""

    def __init__(self, system: FakeSystem, path: str) -> None:
        super().__init__(path)
        self._system = system

    def text(self) -> str:
        return self._system.text(self.path)


class FakeSystem(System):
    """Files in a dict, and a clock that `sleep` advances. `kernel` may change the text of a write."""

    def __init__(
        self,
        files: dict[str, str] | None = None,
        kernel: Callable[[str, str], str] | None = None,
        links: dict[str, str] | None = None,
    ) -> None:
        self.files, self.kernel, self.links, self.now = dict(files or {}), kernel, dict(links or {}), 0.0

    def read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def reader(self, path: str) -> Reader:
        return FakeReader(self, path)

    def head(self, path: str, size: int) -> str:
        return self.read(path)[:size]

    def write(self, path: str, text: str) -> None:
        self.read(path)
        self.files[path] = self.kernel(path, text) if self.kernel else text

    def exists(self, path: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for name in (*self.files, *self.links))

    def names(self, path: str) -> list[str]:
        root = f"{path.rstrip('/')}/"
        inside = (name[len(root) :] for name in (*self.files, *self.links) if name.startswith(root))
        return sorted({name.split("/")[0] for name in inside})

    def link(self, path: str) -> str:
        return self.links.get(path, "")

    def stat(self, path: str) -> Stat | None:
        return Stat(0, len(self.files.get(path, "")), 0, 1) if self.exists(path) else None

    def identity(self, program: str) -> dict[str, Any]:
        return {}

    def space(self, path: str) -> tuple[int, int] | None:
        return 1000, 400

    def account(self, uid: int) -> str:
        return {0: "root", 26: "postgres", 1000: "bench"}[uid]

    def machine(self) -> str:
        return "x86_64"

    def wall(self) -> float:
        return 1e9 + self.now

    def mono(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def allowed_cpus(self) -> list[int]:
        return [0, 1, 2, 3]

    def which(self, tool: str) -> str:
        return f"/usr/bin/{tool}"

    def boot_id(self) -> str:  # type: ignore[override]
        return "boot-1"


def stat_line(pid: int, name: str, *, parent: int = 1, ticks: int = 0, start: int = 100, cpu: int = 0) -> str:
    """A line of /proc/PID/stat with the fields that the agent reads."""
    fields = [
        "S",
        str(parent),
        str(pid),
        str(pid),
        *["0"] * 7,
        str(ticks),
        *["0"] * 7,
        str(start),
        *["0"] * 16,
        str(cpu),
        "0",
    ]
    return f"{pid} ({name}) " + " ".join(fields)
