"""The program `proving` in a process of its own, with its own home directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLI = Path(__file__).resolve().parents[2] / "cli"
SHIM = '#!/bin/sh\nPYTHONPATH={cli} exec {python} -m proving "$@"\n'


@dataclass
class Program:
    """`home` keeps its configuration, and a directory for the PATH of scripts."""

    home: Path
    url: str = ""
    token: str = ""
    env: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Of a shell that finds `proving` on its PATH."""
        shim = self.home / "bin" / "proving"
        if not shim.exists():
            shim.parent.mkdir(parents=True, exist_ok=True)
            shim.write_text(SHIM.format(cli=CLI, python=sys.executable))
            shim.chmod(0o755)
        own = {
            "PATH": f"{shim.parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "COLUMNS": "120",
            "LANG": "C.UTF-8",
        }
        where = {"PROVING_URL": self.url, "PROVING_TOKEN": self.token}
        return own | {name: value for name, value in where.items() if value} | self.env

    def argv(self, *arguments: str) -> list[str]:
        return [str(self.home / "bin" / "proving"), *arguments]

    def run(self, *arguments: str, stdin: str = "", timeout: float = 120) -> subprocess.CompletedProcess[str]:
        env, out = self.environment(), subprocess.PIPE
        return subprocess.run(
            self.argv(*arguments),
            env=env,
            input=stdin,
            stdout=out,
            stderr=out,
            text=True,
            timeout=timeout,
            cwd=self.home,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        env, out = self.environment(), subprocess.PIPE
        return subprocess.Popen(self.argv(*arguments), env=env, stdout=out, stderr=out, text=True, cwd=self.home)

    def json(self, *arguments: str, code: int = 0, **options: Any) -> Any:
        """What it prints with --json, when it ends with `code`."""
        done = self.run(*arguments, "--json", **options)
        assert done.returncode == code, (done.stdout, done.stderr)
        return json.loads(done.stdout)
