"""PostgreSQL for root on a machine with few accounts: initdb looks up the name of the uid that it runs with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SERVER = """
import sys
from pathlib import Path
from embedded.servers.postgres import Postgres
Postgres(Path(sys.argv[1]), "secret", durable=False).prepare()
"""
AGENT = """
import subprocess, sys
from agents.postgres.cluster import choose_account
from agents.host.system import System
from embedded.servers.postgres import bin_dir
account = choose_account(System(), "", str(bin_dir()), sys.argv[1])
subprocess.run([*account.wrapper, bin_dir() / "initdb", "--no-sync", "-D", sys.argv[1] + "/pgdata"], check=True)
"""


@pytest.mark.needs("user namespaces")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(SERVER, id="server"),
        # In the namespace of another user, the owner of / is unmapped, so that the agent trusts no program.
        pytest.param(AGENT, id="agent", marks=pytest.mark.needs("root")),
    ],
)
@pytest.mark.parametrize("accounts", ["daemon:x:1:1::/:/bin/sh", "ada:x:1000:1000::/:/bin/sh\ndaemon:x:1:1::/:/bin/sh"])
def test_root_runs_postgresql_as_a_uid_that_has_an_account(tmp_path: Path, script: str, accounts: str) -> None:
    passwd = tmp_path / "passwd"
    passwd.write_text(f"root:x:0:0::/:/bin/sh\n{accounts}\n")
    as_root = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    only_these_accounts = 'mount --bind "$0" /etc/passwd; exec "$@"'

    done = subprocess.run(
        [*as_root, only_these_accounts, passwd, sys.executable, "-c", script, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
