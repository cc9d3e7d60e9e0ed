"""fio with the real agent: the files and devices that it may write, and their removal."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.errors import HostFailure
from agents.host import devices
from agents.host.system import System
from agents.measure.stage import Lines
from tests.agents.conftest import Connect
from tests.agents.driver import OK, Connection, Refused, of
from tests.agents.run.test_run import supervisor

FOUR_SECTIONS = (Path(__file__).parents[2] / "samples/document002-fio_job.fio").read_text()
SMALL = "[a]\nrw=write\nbs=8k\nsize=64k\nioengine=psync\n"


@pytest.fixture
def storage(open_dir: Path) -> Path:
    """A directory that the host's owner allowed."""
    path = open_dir / "storage"
    path.mkdir()
    return path


@pytest.fixture
def order(storage: Path) -> Callable[..., dict[str, Any]]:
    """A spec of one fio step, with the storage allowed and what else is given."""

    def order(*more: tuple[str, Path | str], **options: Any) -> dict[str, Any]:
        allowed = [{"kind": kind, "path": str(path)} for kind, path in (("directory", storage), *more)]
        return {
            "version": 1,
            "target": None,
            "settings": {},
            "steps": [{"name": "io", "kind": "fio", "options": {"directory": str(storage), **options}}],
            "collect": {"interval_s": 1, "sources": []},
            "allowed_paths": allowed,
        }

    return order


def outcome(agent: Connection, spec: dict[str, Any]) -> tuple[str, dict[str, Any], str]:
    run = agent.submit(spec)
    (ended,) = of(agent.events(run), "outcome")
    return ended["outcome"], ended["error"] or {}, run


def small(line: str) -> dict[str, Any]:
    return {"job_file": f"{SMALL}{line}\n"}


@pytest.mark.needs("fio")
def test_a_job_file_of_the_field_runs_as_it_is(agent: Connection, storage: Path, order: Any) -> None:
    text = FOUR_SECTIONS.replace("/data01/", f"{storage}/")
    text = (
        text.replace("=180", "=2").replace("numjobs=64", "numjobs=2").replace("=10g", "=4m").replace("time=6", "time=1")
    )
    names = [line.strip()[1:-1] for line in text.splitlines() if line.startswith("[rw-")]

    run = agent.submit(order(job_file=text))
    events = agent.events(run, limit_s=120)

    assert of(events, "outcome") == [OK]
    report = json.loads(agent.file(run, "out/io/fio.json"))
    assert [(job["jobname"], job["groupid"]) for job in report["jobs"]] == [(name, n) for n, name in enumerate(names)]
    assert all(job["read"]["clat_ns"]["bins"] for job in report["jobs"])
    series = json.loads(agent.file(run, "out/io/series.json"))
    assert [span["name"] for span in series["spans"]] == names
    assert all(1 < span["ended"] - span["began"] < 10 for span in series["spans"])
    live = of(events, "sample", source="fio")
    assert len(live) >= 4 and all(sample["values"]["read_iops"] > 0 for sample in live[1:3])
    assert gzip.decompress(agent.file(run, "out/io/3_lat.log.gz")).count(b"\n") >= 4
    progress = of(events, "progress")
    assert 0 < progress[0]["done"] < progress[-1]["done"] and progress[0]["eta_s"] < 12
    assert os.listdir(storage) == [], "what fio made is removed"


@pytest.mark.needs("fio")
def test_the_series_agrees_with_the_report(agent: Connection, order: Any) -> None:
    options = {"rw": "randrw", "bs": "8k", "size": "4m", "numjobs": 3, "runtime_s": 4, "group_reporting": True}

    _, _, run = outcome(agent, order(**options))

    (job,) = json.loads(agent.file(run, "out/io/fio.json"))["jobs"]
    columns = json.loads(agent.file(run, "out/io/series.json"))["columns"]
    for way in ("read", "write"):
        seconds = [value for value in columns[f"{way}_iops"] if value is not None]
        assert 3 <= len(seconds) <= 5
        assert sum(seconds) / len(seconds) == pytest.approx(job[way]["iops"], rel=0.15)
        mean_ms = sum(columns[f"{way}_lat"]) / len(columns["t"])
        assert mean_ms == pytest.approx(job[way]["lat_ns"]["mean"] / 1e6, rel=0.3)


@pytest.mark.needs("fio")
def test_a_new_file_is_made_where_it_is_allowed_and_removed_again(agent: Connection, storage: Path, order: Any) -> None:
    assert outcome(agent, order(filename=f"{storage}/ext4", size="64k"))[0] == "ok"
    assert os.listdir(storage) == []


@pytest.mark.parametrize("how", ["killed", "cancelled"])
@pytest.mark.needs("fio")
def test_files_of_an_interrupted_fio_are_removed_and_existing_files_remain(
    connect: Connect, storage: Path, tmp_path: Path, order: Any, how: str
) -> None:
    allowed_file, agent = storage / "given", connect()
    allowed_file.write_text("to be lost")
    allowed_file.chmod(0o666)
    job_file = f"[a]\nrw=write\nsize=1m\nruntime=60\ntime_based\nfilename={storage}/new:{allowed_file}\n"
    run = agent.submit(order(("file", allowed_file), job_file=job_file))
    agent.events(run, until="sample")
    assert len(os.listdir(storage)) == 4, "the given file, and directories of the step and of each file"

    if how == "killed":
        os.kill(supervisor(tmp_path, run), signal.SIGKILL)
    else:
        agent.call("cancel", run=run)
    (ended,) = of(connect().events(run), "outcome")

    assert ended["outcome"] == {"killed": "interrupted", "cancelled": "cancelled"}[how]
    assert os.listdir(storage) == ["given"]


@pytest.mark.needs("fio")
def test_an_existing_file_is_not_overwritten(agent: Connection, storage: Path, order: Any) -> None:
    theirs = storage / "theirs"
    theirs.write_text("precious")

    ended, error, _ = outcome(agent, order(**small(f"filename={theirs}")))

    assert (ended, error["blame"]) == ("failed", "plan")
    assert "itself, which destroys its contents" in error["message"] and theirs.read_text() == "precious"


@pytest.mark.fast
@pytest.mark.needs("fio")
@pytest.mark.parametrize(("before", "is_written"), [("x" * 65536, True), ("too small for 64 KiB", False)])
def test_a_file_that_was_allowed_itself_is_written_if_it_is_large_enough_and_stays(
    agent: Connection, storage: Path, order: Any, before: str, is_written: bool
) -> None:
    """fio replaces a file that is too small by a new one: the given one stays as it is."""
    allowed_file = storage / "given"
    allowed_file.write_text(before)
    allowed_file.chmod(0o666)
    inode = allowed_file.stat().st_ino

    ended, _, _ = outcome(agent, order(("file", allowed_file), **small(f"rw=write\nfilename={allowed_file}\nunlink=1")))

    assert ended == "ok" and os.listdir(storage) == ["given"] and allowed_file.stat().st_ino == inode
    assert (allowed_file.read_bytes() != before.encode()) == is_written
    assert allowed_file.stat().st_size == len(before)


@pytest.mark.needs("fio", "root")
def test_a_file_that_the_account_of_the_load_may_not_write_is_refused(
    agent: Connection, storage: Path, order: Any
) -> None:
    allowed_file = storage / "given"
    allowed_file.write_text("stays")

    ended, error, _ = outcome(agent, order(("file", allowed_file), **small(f"filename={allowed_file}")))

    assert (ended, error["hint"].startswith("change its owner to ")) == ("failed", True)
    assert allowed_file.read_text() == "stays"


@pytest.mark.parametrize("name", ["x\nexec_prerun=id\n;", "a b", "a:b"])
def test_a_link_adds_no_line_to_a_job_file(agent: Connection, storage: Path, order: Any, name: str) -> None:
    (storage / name).mkdir()
    (storage / "link").symlink_to(storage / name)

    ended, error, _ = outcome(agent, order(directory=f"{storage}/link", size="64k"))

    assert (ended, error["blame"]) == ("failed", "plan")
    assert "a path without spaces and special characters" in error["message"]


@pytest.mark.needs("fio", "root")
def test_a_directory_that_the_account_of_the_load_may_not_enter_is_named(
    agent: Connection, open_dir: Path, storage: Path, order: Any
) -> None:
    open_dir.chmod(0o700)

    ended, error, _ = outcome(agent, order(size="64k"))

    assert ended == "failed" and f"cannot enter {storage}" in error["message"]


@pytest.mark.needs("fio")
def test_no_link_leads_outside_of_the_allowed_paths(
    agent: Connection, storage: Path, tmp_path: Path, order: Any
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (storage / "link").symlink_to(outside)
    (storage / "file").symlink_to(outside / "precious")

    for line in (f"filename={storage}/link/new", f"filename={storage}/file", f"directory={storage}/link"):
        ended, error, _ = outcome(agent, order(**small(line)))
        assert (ended, error["blame"]) == ("failed", "plan"), line
        assert str(outside) in error["message"], line

    assert os.listdir(outside) == ["precious"] and (outside / "precious").read_text() == "precious"


@pytest.mark.fast
@pytest.mark.parametrize("line", ["filename={0}/x", "filename={0}/storage/../x", "directory={0}", "filename=/dev/sda"])
def test_the_agent_refuses_job_files_with_paths_that_the_spec_does_not_allow(
    agent: Connection, tmp_path: Path, order: Any, line: str
) -> None:
    with pytest.raises(Refused) as refusal:
        agent.submit(order(**small(line.format(tmp_path))))

    assert refusal.value.failure["field"] == "fio.job_file"
    assert not (tmp_path / "x").exists()


# Devices


def losetup(*arguments: str | Path) -> str:
    return subprocess.run(
        ["losetup", *arguments], check=True, capture_output=True, text=True, timeout=30
    ).stdout.strip()


@pytest.fixture
def device(tmp_path: Path, host_wide: None) -> Iterator[str]:
    """An empty loop device of 64 MiB."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    name = losetup("--find", "--show", image)
    yield name
    losetup("--detach", name)


def bytes_read(device: str) -> int:
    return int(Path("/sys/block", os.path.basename(device), "stat").read_text().split()[2]) * 512


def refused(device: str) -> str:
    with pytest.raises(HostFailure) as failure:
        os.close(devices.claim(System(), device))
    return failure.value.message


def make(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=60)


@pytest.mark.fast
@pytest.mark.needs("fio", "root")
def test_an_empty_device_that_was_allowed_is_written(agent: Connection, device: str, order: Any) -> None:
    ended, error, run = outcome(agent, order(("device", device), filename=device, rw="write", size="1m", direct=True))

    assert ended == "ok", error
    assert json.loads(agent.file(run, "out/io/fio.json"))["jobs"][0]["write"]["io_bytes"] == 1 << 20
    assert os.path.exists(device)
    assert not [name for name in os.listdir("/dev") if name.startswith("proving-ground-")]


@pytest.mark.needs("fio", "root")
def test_each_step_reads_a_device_anew(agent: Connection, device: str, order: Any) -> None:
    spec = order(("device", device), filename=device, rw="read", size="32m")
    spec["steps"].append({**spec["steps"][0], "name": "again"})
    before = bytes_read(device)

    ended, error, _ = outcome(agent, spec)

    assert ended == "ok", error
    assert bytes_read(device) - before >= 2 * (32 << 20)


@pytest.mark.needs("fio", "root")
def test_a_phase_that_would_find_a_device_in_memory_is_refused(agent: Connection, device: str, order: Any) -> None:
    phases = f"[global]\nfilename={device}\nsize=1m\n[write]\nrw=write\n[read]\nstonewall\nrw=read\n"
    spec = order(("device", device), job_file=phases)

    ended, error, _ = outcome(agent, spec)

    assert ended == "failed" and "a step for each phase" in str(error)


@pytest.mark.needs("fio", "root")
@pytest.mark.parametrize("second", ["direct=1", "buffered=0", "invalidate=0", "filename=new"])
def test_phases_that_share_no_cached_device_run(agent: Connection, device: str, order: Any, second: str) -> None:
    phases = f"[write]\nrw=write\nsize=1m\nfilename={device}\n[read]\nstonewall\nrw=read\nsize=1m\n"
    own = f"{second}\n" if second.startswith("filename") else f"filename={device}\n{second}\n"
    spec = order(("device", device), job_file=phases + own)

    ended, error, _ = outcome(agent, spec)

    assert ended == "ok", error


@pytest.mark.needs("fio", "root", "mkfs.ext4")
def test_a_device_with_a_file_system_is_never_written(agent: Connection, device: str, order: Any) -> None:
    make("mkfs.ext4", "-q", device)
    before = Path(device).read_bytes()

    ended, error, _ = outcome(agent, order(("device", device), filename=device, rw="write", size="1m"))

    assert (ended, error["blame"]) == ("failed", "host")
    assert "it holds ext2, ext3 or ext4" in error["message"] and "wipefs" in error["hint"]
    assert Path(device).read_bytes() == before


@pytest.mark.needs("fio", "root")
def test_a_device_is_not_allowed_by_the_directory_of_its_node(agent: Connection, device: str, order: Any) -> None:
    ended, error, _ = outcome(agent, order(("directory", "/dev"), filename=device, rw="write", size="1m"))

    assert (ended, error["blame"]) == ("failed", "plan") and "allow this existing device itself" in error["message"]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("argv", "held"),
    [
        pytest.param(("mkfs.ext4", "-q"), "ext2, ext3 or ext4", marks=pytest.mark.needs("mkfs.ext4")),
        pytest.param(("mkfs.ext2", "-q"), "ext", marks=pytest.mark.needs("mkfs.ext4")),
        (("mkswap",), "swap"),
    ],
)
@pytest.mark.needs("root")
def test_devices_with_content_of_real_programs_are_refused(device: str, argv: tuple[str, ...], held: str) -> None:
    make(*argv, device)

    assert held in refused(device)


@pytest.mark.thorough
def test_every_magic_number_stops_it(tmp_path: Path) -> None:
    image = tmp_path / "image"
    for name, offset, magic in devices.MAGIC:
        with image.open("w+b") as file:
            file.truncate(8 << 20)
            assert devices.holds(file.fileno()) == ""
            os.pwrite(file.fileno(), magic, offset)
            assert devices.holds(file.fileno()) == name


@pytest.mark.needs("root")
def test_superblocks_at_the_end_stop_it(device: str) -> None:
    for offset in ((64 << 20) - 64 * 1024, (64 << 20) - 8192, (64 << 20) - 512):
        with Path(device).open("r+b") as file:
            file.seek(offset)
            file.write(b"EFI PART" if offset % 4096 else b"\xfc\x4e\x2b\xa9")
        assert "it holds" in refused(device), offset
        with Path(device).open("r+b") as file:
            file.seek(offset)
            file.write(bytes(8))


@pytest.mark.needs("root", "mkfs.ext4")
def test_a_device_in_use_is_refused_and_a_claimed_one_cannot_be_mounted(device: str, tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    with Path(device).open("rb"):
        assert f"process {os.getpid()} has it open" in refused(device)
    claimed = devices.claim(System(), device)
    assert "has it open" in refused(device)
    os.close(claimed)
    make("mkfs.ext4", "-q", device)
    make("mount", device, str(mount))
    try:
        assert f"mounted on {mount}" in refused(device)
    finally:
        make("umount", str(mount))


@pytest.mark.needs("fio", "root")
def test_the_content_of_a_loop_device_is_not_written(
    agent: Connection, device: str, tmp_path: Path, order: Any
) -> None:
    image = tmp_path / "image"

    ended, error, _ = outcome(agent, order(("file", image), filename=str(image), rw="write", size="1m"))

    assert ended == "failed" and f"{os.path.basename(device)} shows its contents" in error["message"]


def test_a_line_that_is_written_over_is_read_before_the_next_one_begins(tmp_path: Path) -> None:
    file, read = tmp_path / "stdout", list[str]()
    file.write_bytes(b"first\rsecond\rthi")
    lines = Lines(file, read.append)

    lines.poll(0.0)
    with file.open("ab") as more:
        more.write(b"rd\n")
    lines.close()

    assert read == ["first", "second", "third"]
