"""The session of docs/reference/cli.md, carried out for real and written down there: python -m tests.cli.session"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.program import Program
from tests.cli.reference import DOCUMENT, with_part
from tests.servers import remote
from tests.servers.ground import Ground, prepare

QUICK = "--set workload.time_s=4 --set workload.scale=1"
# Each commit waits for 20 ms, and at most eight wait at once: 400 per second at most.
CHANGE = "settings.postgresql.commit_delay=0,20000 --set settings.postgresql.commit_siblings=0"
SESSION = [
    ("proving login {url}", 0),
    ("proving hosts", 0),
    (f"proving run cpu-scaling --host this-machine --repetitions 3 {QUICK} --watch", 0),
    ("proving ls", 0),
    ("proving show last --json | head -n 5", 0),
    ('proving decide last --title "Keep all cpus" --decision "No pinning." --reasons "No evidence for fewer cpus."', 0),
    ("proving export last runs.csv", 0),
    ("proving run cpu-scaling --host this-machine --set gpus=1,2", 2),
    (f"HOST=this-machine REPETITIONS=3 docs/pipeline.sh {CHANGE} {QUICK}", 3),
]


def record(ground: Ground, home: Path) -> list[tuple[str, int, str]]:
    """(command, exit code, output) of each command, for a user with a checkout below `home`."""
    (home / "docs").symlink_to(DOCUMENT.parents[1])
    program = Program(home, env={"COLUMNS": "116"})
    return [_entered(program, command.format(url=ground.stack.base_url), ground.client.token) for command, _ in SESSION]


def _entered(program: Program, command: str, token: str) -> tuple[str, int, str]:
    """Through a shell. Only the login reads the token, which a terminal would not show."""
    out, env = subprocess.PIPE, program.environment()
    argv = ["/bin/sh", "-c", command]
    done = subprocess.run(
        argv,
        env=env,
        input=f"{token}\n",
        stdout=out,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=program.home,
        timeout=600,
    )
    return command, done.returncode, done.stdout.replace(str(program.home), "~")


def written(transcript: list[tuple[str, int, str]]) -> str:
    """As a document shows it; an exit code where it is not 0."""
    lines = []
    for command, code, output in transcript:
        lines += [f"$ {command}", *(line.rstrip() for line in output.rstrip().splitlines())]
        lines += ["$ echo $?", str(code)] if code else []
        lines.append("")
    return "\n".join(f"    {line}" if line else "" for line in lines)


def main() -> int:
    with prepare() as ground, remote.short_dir() as home:
        transcript = record(ground, home)
    part = written(transcript)
    sys.stdout.write(part + "\n")
    if [code for _, code, _ in transcript] != [code for _, code in SESSION]:
        sys.stderr.write("a command ended otherwise than it should: nothing is written\n")
        return 1
    DOCUMENT.write_text(with_part(DOCUMENT.read_text(), "session", part))
    return 0


if __name__ == "__main__":
    sys.exit(main())
