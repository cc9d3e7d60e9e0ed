"""make_venv and install, up to the point where packages would be fetched."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedded import bootstrap, paths


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the link that `installed` checks."""
    path = tmp_path / ".venv"
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(bootstrap, "VENV", path)
    monkeypatch.setattr(bootstrap, "STAMP", path / "locks.json")
    return path


def calls(monkeypatch: pytest.MonkeyPatch, *statuses: int) -> list[str]:
    """Notes what would be run; the nth call answers the nth status, further ones 0."""
    noted: list[str] = []
    left = list(statuses)

    def note(*argv: str, **settings: str) -> int:
        noted.append(" ".join(argv[2:5]))
        return left.pop(0) if left else 0

    monkeypatch.setattr(bootstrap, "_call", note)
    return noted


def test_a_second_start_runs_nothing(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = calls(monkeypatch)
    assert bootstrap.main(["runtime"]) == 0
    first = len(noted)
    assert bootstrap.main(["runtime"]) == 0
    assert len(noted) == first > 0


def test_another_group_or_a_changed_lock_is_installed(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = calls(monkeypatch)
    bootstrap.main(["runtime"])
    for group in ("embedded", "runtime"):
        noted.clear()
        if group == "runtime":
            (venv / "locks.json").write_text('{"runtime": "an older digest"}')
        assert bootstrap.main([group]) == 0
        assert noted == ["pip install -q", "uv pip install"]


def test_pip_installs_the_packages_if_uv_fails(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = calls(monkeypatch, 0, 0, 1)
    assert bootstrap.main(["runtime"]) == 0
    assert noted == [f"venv --clear {venv}", "pip install -q", "uv pip install", "pip install -q"]


def test_uv_gets_the_cas_and_indexes_that_pip_is_configured_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "pip.conf"
    configuration.write_text(
        "[global]\ncert = /etc/ssl/company.pem\nindex-url = https://index.example.org/simple\n"
        "extra-index-url =\n  https://a.example.org/simple\n  https://b.example.org/simple\ntimeout = 60\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.setenv("PIP_INDEX_URL", "https://nearer.example.org/simple")

    assert bootstrap.uv_settings([sys.executable, "-m", "pip"]) == {
        "SSL_CERT_FILE": "/etc/ssl/company.pem",
        "UV_DEFAULT_INDEX": "https://nearer.example.org/simple",
        "UV_INDEX": "https://a.example.org/simple https://b.example.org/simple",
    }


def test_a_failed_installation_is_repeated_at_the_next_start(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls(monkeypatch, 0, 1, 1)
    assert bootstrap.main(["runtime"]) == 1
    assert bootstrap.installed() == {}


def test_an_old_python_is_refused_with_the_needed_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.version_info", (3, 9, 2))
    assert bootstrap.make_venv() == (
        f"Python 3.11 or later is needed, {sys.executable} is 3.9; try make PYTHON=python3.12"
    )


def test_a_python_without_venv_is_refused_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    calls(monkeypatch, 1)
    assert "apt-get install python3." in bootstrap.make_venv()


def test_every_pin_has_a_hash_and_no_lock_names_a_host() -> None:
    for lock in paths.CHECKOUT.glob("requirements/*.txt"):
        text = lock.read_text()
        pins = [line for line in text.splitlines() if "==" in line and not line.lstrip().startswith("#")]
        assert pins, lock
        assert all(line.endswith("\\") for line in pins), "a hash follows"
        assert "://" not in text


def test_make_help_lists_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=paths.CHECKOUT, capture_output=True, text=True, timeout=30, check=True)
    listed = {line.split()[0] for line in done.stdout.splitlines()}
    assert listed >= {"demo", "test", "e2e", "bench", "docs", "lint", "lock", "up", "run", "clean-demo"}
