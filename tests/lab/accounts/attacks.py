"""Attacks of local accounts on the agent, for a guest: python3 attacks.py ATTACK SECONDS, as the account that attacks.

Each attack repeats until its time is over. test_local_accounts.py checks that none has succeeded. Each planted program
appends its uid to RAN when it is executed.
"""

import contextlib
import glob
import json
import os
import pwd
import shutil
import struct
import subprocess
import sys
import time
import zlib

BASE = "/var/lib/proving-ground"
CLUSTERS = f"{BASE}/clusters"
DEBIAN = "/var/lib/postgresql/15/main"
CANARY, CANARIES, SECRET = "/root/canary", "/root/canaries", "/root/secret"
RAN = "/tmp/ran"
PROGRAM = f"#!/bin/sh\nid -u >> {RAN}\n"


def swap(path, target):
    """Put a link to `target` in place of `path` for a moment."""
    aside = f"{path}.aside"
    os.rename(path, aside)
    os.symlink(target, path)
    time.sleep(0.003)
    os.unlink(path)
    os.rename(aside, path)


def plant(path, target):
    with contextlib.suppress(FileExistsError):
        os.symlink(target, path)


def a_link_in_place_of_pgdata():
    for path in glob.glob(f"{CLUSTERS}/*/pgdata"):
        swap(path, "/etc")


def a_link_in_place_of_the_cluster_files():
    for path in glob.glob(f"{CLUSTERS}/*/pgdata/*.conf") + glob.glob(f"{CLUSTERS}/*/datasets.json"):
        swap(path, CANARY)


def links_at_names_that_will_be_written():
    for cluster in glob.glob(f"{CLUSTERS}/*/"):
        for name in ("datasets.json.new", "socket/x", "pgdata/proving_ground.conf.new", "pgdata/postgresql.conf.new"):
            plant(cluster + name, CANARY)


def links_in_scratch_directories():
    for scratch in glob.glob(f"{CLUSTERS}/scratch-*"):
        for name in ("script.sql", "measure.sql", "io.fio", "job.fio", "log_bw.1.log"):
            plant(f"{scratch}/{name}", CANARY)


def directories_swapped_while_they_are_removed():
    for scratch in glob.glob(f"{CLUSTERS}/scratch-*"):
        os.makedirs(f"{scratch}/a/b", exist_ok=True)
        swap(f"{scratch}/a", CANARIES)


def hard_links_to_files_of_root():
    for scratch in glob.glob(f"{CLUSTERS}/scratch-*"):
        for path in ("/etc/passwd", "/etc/hostname"):
            os.link(path, f"{scratch}/{os.path.basename(path)}")


def a_lock_file_that_names_another_process():
    pid = subprocess.run(["pgrep", "-o", "sshd"], capture_output=True, text=True).stdout.strip()
    for path in glob.glob(f"{CLUSTERS}/*/pgdata"):
        with open(f"{path}/postmaster.pid.mine", "w") as file:
            file.write(f"{pid}\n{path}\n1\n5432\n/tmp\n")
        os.rename(f"{path}/postmaster.pid.mine", f"{path}/postmaster.pid")
    time.sleep(1)


def start_files_of_clients():
    home = os.path.expanduser("~")
    for name in (".psqlrc", ".profile", ".bashrc"):
        with open(f"{home}/{name}", "w") as file:
            file.write(f"\\! id -u >> {RAN}\n" if name == ".psqlrc" else f"id -u >> {RAN}\n")
    time.sleep(1)


def a_process_named_postgres():
    """It runs from /tmp, with a lock file and programs, which the agent may ask for their version."""
    place = "/tmp/planted"
    for name in ("data", "bin"):
        os.makedirs(f"{place}/{name}", exist_ok=True)
    shutil.copy("/bin/sleep", f"{place}/bin/postgres")
    running = subprocess.Popen([f"{place}/bin/postgres", "30"], cwd=f"{place}/data")
    with open(f"{place}/data/postmaster.pid", "w") as file:
        file.write(f"{running.pid}\n{place}/data\n1\n5555\n/tmp\n")
    with open(f"{place}/data/PG_VERSION", "w") as file:
        file.write("15\n")
    for name in ("psql", "pgbench", "initdb", "pg_ctl"):
        with open(f"{place}/bin/{name}", "w") as file:
            file.write(PROGRAM)
        os.chmod(f"{place}/bin/{name}", 0o755)
    running.wait()


def fifos_and_links_in_a_cluster_of_debian():
    path = f"{DEBIAN}/postmaster.pid"
    os.mkfifo(path)
    time.sleep(2)
    os.unlink(path)
    swap(f"{DEBIAN}/postgresql.auto.conf", SECRET)


def names_in_tmp():
    for name in glob.glob("/tmp/proving-ground-scripts-*"):
        swap(name, CANARIES)
    for name in ("agent.pyz", "hello", "postgres", "psql", ".s.PGSQL.5432.lock"):
        with open(f"/tmp/{name}", "w") as file:
            file.write(PROGRAM)
        os.chmod(f"/tmp/{name}", 0o755)
    time.sleep(0.1)


def sudo(*command, stdin=b""):
    return subprocess.run(["sudo", "-n", *command], input=stdin, capture_output=True, cwd="/tmp")


LAUNCHER = "/usr/local/sbin/proving-agent"


def programs_by_sudo():
    with open("/tmp/mine.sh", "w") as file:
        file.write(PROGRAM)
    os.chmod("/tmp/mine.sh", 0o755)
    for command in (("/tmp/mine.sh",), ("python3", "-I", "/tmp/mine.sh"), ("sh", "-c", f"id -u >> {RAN}"), ("-s",)):
        sudo(*command)
    time.sleep(1)


def other_agents_by_the_launcher():
    mine = b"import os; open('%s', 'a').write('%%d\\n' %% os.getuid())\n" % RAN.encode()
    os.makedirs("/tmp/store", exist_ok=True)
    for suffix, data in (("pyz", mine), ("statement", b"proving-agent 1 9 " + b"a" * 64 + b"\n"), ("sig", b"")):
        with open(f"/tmp/store/{'a' * 64}.{suffix}", "wb") as file:
            file.write(data)
    sudo(LAUNCHER, "run", "a" * 64, "version")
    sudo(LAUNCHER, "run", "../../../tmp/store/" + "a" * 64, "version")
    statement = b"proving-agent 1 999999 " + b"a" * 64 + b"\n"
    sudo(LAUNCHER, "install", stdin=b"%d 0 %d\n" % (len(statement), len(mine)) + statement + mine)
    time.sleep(1)


def environments_for_the_launcher():
    os.makedirs("/tmp/path", exist_ok=True)
    for name in ("sitecustomize.py", "fcntl.py", "hashlib.py"):
        with open(f"/tmp/path/{name}", "w") as file:
            file.write(f"import os; open('{RAN}', 'a').write('%d\\n' % os.getuid())\n")
    shutil.copy("/tmp/mine.sh", "/tmp/path/ssh-keygen") if os.path.exists("/tmp/mine.sh") else None
    for pair in (
        "PYTHONPATH=/tmp/path",
        "PATH=/tmp/path:/usr/bin",
        "LD_LIBRARY_PATH=/tmp/path",
        "PYTHONHOME=/tmp/path",
    ):
        sudo(pair, LAUNCHER, "run", "a" * 64, "version")
        sudo("-E", pair, LAUNCHER, "run", "a" * 64, "version")
    time.sleep(1)


def other_spools_and_verbs():
    """The signed agent, which this account may start, with the spool of the account and with its requests."""
    digest = os.environ["AGENT"]
    os.makedirs("/tmp/spool/jobs", exist_ok=True)
    for verb in ("rpc", "run", "boot", "guard", "install", "uninstall"):
        sudo(LAUNCHER, "run", digest, verb, "--spool", "/tmp/spool")
        sudo(LAUNCHER, "run", digest, verb, "--spool", f"{BASE}/spool/../../../../tmp/spool")
    time.sleep(1)


def frame(number, verb, **args):
    """A request of the agent's protocol."""
    payload = json.dumps({"id": number, "verb": verb, "args": args}, sort_keys=True, separators=(",", ":")).encode()
    return b"\nPGF1" + struct.pack(">II", len(payload), zlib.crc32(payload)) + payload


def requests_that_name_programs_of_its_own():
    """The signed agent, with requests that the server would never send."""
    bin_dir = f"/tmp/{pwd.getpwuid(os.getuid()).pw_name}-bin"
    os.makedirs(bin_dir, exist_ok=True)
    for name in ("postgres", "psql", "pgbench", "initdb", "pg_ctl"):
        with open(f"{bin_dir}/{name}", "w") as file:
            file.write(f"#!/bin/sh\necho named-$(id -u) >> {RAN}\necho 'pgbench (PostgreSQL) 15.0'\n")
        os.chmod(f"{bin_dir}/{name}", 0o755)
    scripts = [{"name": "one", "text": "select 1;", "weight": 1}]
    step = {"name": "one", "kind": "pgbench", "options": {"clients": 1, "time_s": 1, "scripts": scripts}}
    cluster = {
        "name": "x",
        "data_dir": DEBIAN,
        "bin_dir": bin_dir,
        "owner": "postgres",
        "running": True,
        "major": 15,
        "port": 5432,
        "config_file": f"{DEBIAN}/postgresql.conf",
        "unit": "",
        "include": "",
    }
    server = {
        "name": "x",
        "addresses": ["127.0.0.1"],
        "port": 5432,
        "database": "postgres",
        "user": "postgres",
        "sslmode": "disable",
    }
    requests = (
        frame(1, "check", steps=[step], bin_dir=bin_dir),
        frame(2, "facts", pg_bin_dirs=[bin_dir]),
        frame(3, "parameters", clusters=[cluster], names=["work_mem"]),
        frame(4, "remote", server=server, bin_dir=bin_dir, access={"password": "x"}),
    )
    sudo(LAUNCHER, "run", os.environ["AGENT"], "rpc", "--spool", f"{BASE}/spool", stdin=b"".join(requests))


def main(name, seconds):
    deadline = time.monotonic() + float(seconds)
    tries = 0
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            globals()[name]()
        tries += 1
        time.sleep(0.001)
    sys.stdout.write(f"{name} {tries}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
