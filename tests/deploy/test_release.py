"""A release is refused while anything disagrees with its version, and is built of the tagged commit alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from datetime import date
from pathlib import Path

import pytest

from deploy import base_images, release
from embedded import sbom

TODAY = date(2026, 11, 23)
PROJECT = '[project]\nname = "{name}"\nversion = "{version}"\n'


def run(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *who, "-C", str(root), *arguments], check=True, capture_output=True, timeout=60)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small one that may be released as 1.2.3."""
    root = tmp_path / "checkout"
    write(root, "pyproject.toml", PROJECT.format(name="proving-ground", version="1.2.3"))
    shutil.copytree(release.ROOT / "cli", root / "cli", ignore=shutil.ignore_patterns("__pycache__"))
    text = (root / "cli" / "pyproject.toml").read_text()
    write(root, "cli/pyproject.toml", text.replace(release.declared(root / "cli" / "pyproject.toml"), "1.2.3"))
    write(root, "CHANGELOG.md", "# Changes\n\n## 1.2.3 - 2026-11-23\n\n- All of it.\n\n## 1.2.2 - 2026-10-01\n")
    write(root, "README.md", "PostgreSQL 18.6.3 and proving-1.2.3-py3-none-any.whl\n")
    write(root, "docs/operations/production.md", "proving-ground:1.2.3 and git checkout v1.2.3\n")
    write(root, "deploy/kubernetes/web.yaml", "image: proving-ground:1.2.3\n")
    for name in ("requirements/runtime.txt", "Dockerfile", "docker-compose.yml", "agents/__init__.py"):
        write(root, name, (release.ROOT / name).read_text())
    run(root, "init", "--quiet")
    commit(root)
    return root


def commit(root: Path) -> None:
    run(root, "add", "--all")
    run(root, "commit", "--quiet", "--message", "Release", "--allow-empty")
    run(root, "tag", "--force", "v1.2.3")


def test_a_clean_tag_whose_documents_agree_may_be_released(checkout: Path) -> None:
    assert list(release.problems(checkout, TODAY)) == []


@pytest.mark.parametrize(
    ("file", "was", "now", "message"),
    [
        ("cli/pyproject.toml", 'version = "1.2.3"', 'version = "1.2.2"', "cli/pyproject.toml is version 1.2.2, and"),
        ("CHANGELOG.md", "1.2.3 - 2026-11-23", "Unreleased", "begins with 'Unreleased': its first section must be"),
        ("CHANGELOG.md", "## 1.2.3 - 2026-11-23", "", "CHANGELOG.md begins with version 1.2.2, and"),
        ("CHANGELOG.md", "2026-11-23", "2026-11-24", "which is in the future"),
        (
            "docs/operations/production.md",
            "ground:1.2.3",
            "ground:1.2.2",
            "docs/operations/production.md names version 1.2.2, and",
        ),
        ("README.md", "proving-1.2.3", "proving-1.1.0", "README.md names version 1.1.0, and"),
        ("deploy/kubernetes/web.yaml", "ground:1.2.3", "ground:1.2.2", "kubernetes/web.yaml names version 1.2.2, and"),
    ],
)
def test_a_file_with_another_version_is_named(checkout: Path, file: str, was: str, now: str, message: str) -> None:
    write(checkout, file, (checkout / file).read_text().replace(was, now))
    commit(checkout)

    (problem,) = release.problems(checkout, TODAY)
    assert message in problem


def test_a_checkout_that_is_not_clean_is_refused(checkout: Path) -> None:
    write(checkout, "new.txt", "")

    assert list(release.problems(checkout, TODAY)) == ["the checkout is not clean: 1 file is changed or untracked"]


def test_a_commit_without_the_tag_is_refused(checkout: Path) -> None:
    run(checkout, "commit", "--quiet", "--message", "Later", "--allow-empty")

    (problem,) = release.problems(checkout, TODAY)
    assert "no tag v1.2.3" in problem


@pytest.fixture
def without_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "engine_answers", lambda: False)


def built(checkout: Path, target: Path) -> dict[str, bytes]:
    release.build(checkout, target, [])
    return {file.name: file.read_bytes() for file in target.iterdir()}


def test_the_wheel_is_the_tagged_commits_and_the_same_each_time(
    checkout: Path, tmp_path: Path, without_engine: None, capfd: pytest.CaptureFixture[str]
) -> None:
    write(checkout, "cli/proving/not_committed.py", "")

    first, second = built(checkout, tmp_path / "a"), built(checkout, tmp_path / "b")

    assert first == second
    assert sorted(first) == ["SHA256SUMS", "agent.cdx.json", "proving-1.2.3-py3-none-any.whl", "server.cdx.json"]
    head = release.git(checkout, "rev-parse", "HEAD")[:12]
    with zipfile.ZipFile(tmp_path / "a" / "proving-1.2.3-py3-none-any.whl") as wheel:
        assert wheel.read("proving/commit.txt").decode().strip() == head
        assert "proving/not_committed.py" not in wheel.namelist()
    subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "a", check=True, capture_output=True, timeout=60)


def test_the_release_lists_the_components_of_server_and_agent(
    checkout: Path, tmp_path: Path, without_engine: None
) -> None:
    files = built(checkout, tmp_path / "a")

    server, agent = (json.loads(files[f"{name}.cdx.json"]) for name in ("server", "agent"))
    assert server["metadata"]["component"]["version"] == agent["metadata"]["component"]["version"] == "1.2.3"
    assert server["components"] == list(sbom.packages("runtime"))
    assert agent["metadata"]["component"]["hashes"][0]["content"] == sbom.agent_digest(checkout)


def test_the_base_images_are_those_of_compose_unless_an_option_names_others() -> None:
    names = base_images.names(release.ROOT, ["--build-arg", "PYTHON_IMAGE=a.example.org:5000/python:3.13", "--pull"])

    assert names == {
        "PYTHON_IMAGE": "a.example.org:5000/python:3.13",
        "POSTGRES_IMAGE": "postgres:18",
        "REDIS_IMAGE": "redis:8",
        "NGINX_IMAGE": "nginx:stable",
    }
    defaults = dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)$", (release.ROOT / "Dockerfile").read_text(), re.MULTILINE))
    assert defaults == {name: base_images.names(release.ROOT)[name] for name in base_images.BUILD}


def test_images_with_a_digest_are_lines_for_env() -> None:
    pinned = f"redis:8@sha256:{'a' * 64}"

    assert base_images.pinned(pinned) == pinned
    assert base_images.variables({"REDIS_IMAGE": pinned}).splitlines()[-1] == f"REDIS_IMAGE={pinned}"
    assert base_images.summary({"REDIS_IMAGE": pinned}) == "images.env has the digests of all base images."


def test_without_an_engine_the_missing_image_is_reported(checkout: Path, tmp_path: Path, without_engine: None) -> None:
    assert release.build(checkout, tmp_path / "a", []) == "No container engine answers, so no image was built."


def test_this_checkout_disagrees_in_nothing_that_its_release_will_not_change() -> None:
    problems = release.problems(release.ROOT, date(9999, 1, 1))

    before_a_release = ("not clean", "no tag", "CHANGELOG.md begins with 'Unreleased'")
    assert [problem for problem in problems if not any(phrase in problem for phrase in before_a_release)] == []
