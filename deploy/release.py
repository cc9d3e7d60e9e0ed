"""make release: build the wheel of `proving`, the server's image, component lists and checksums from a tag. Its
documents must agree with it."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from deploy import base_images
from embedded import sbom

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
DATED = re.compile(r"(\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})")
# References to a release in documents: an image, a wheel, or a tag.
NAMED = re.compile(r"(?:proving-ground:|\bproving-|\bv)(\d+\.\d+\.\d+)\b")
BUILD_S = 3600


class ReleaseError(Exception):
    """What must change before a release is possible."""


def problems(root: Path, today: date) -> Iterator[str]:
    """Yield one sentence for each problem that prevents the release of this checkout."""
    version = declared(root / "pyproject.toml")
    cli = declared(root / "cli" / "pyproject.toml")
    if cli != version:
        yield f"cli/pyproject.toml is version {cli}, and pyproject.toml is {version}"
    yield from _changelog(root, version, today)
    manifests = root.glob("deploy/kubernetes/*.yaml")
    for page in sorted([root / "README.md", root / "cli" / "README.md", *root.glob("docs/**/*.md"), *manifests]):
        wrong = sorted(set(NAMED.findall(page.read_text())) - {version})
        if wrong:
            yield f"{page.relative_to(root)} names version {', '.join(wrong)}, and pyproject.toml is {version}"
    if changed := git(root, "status", "--porcelain"):
        count = len(changed.splitlines())
        yield f"the checkout is not clean: {count} {'file is' if count == 1 else 'files are'} changed or untracked"
    if f"v{version}" not in git(root, "tag", "--points-at", "HEAD").split():
        yield f"the checked out commit has no tag v{version}: create it with git tag v{version}"


def _changelog(root: Path, version: str, today: date) -> Iterator[str]:
    newest = SECTION.search((root / "CHANGELOG.md").read_text())
    match = DATED.fullmatch(newest[1]) if newest else None
    if match is None:
        first = f"begins with {newest[1]!r}" if newest else "has no section"
        yield f"CHANGELOG.md {first}: its first section must be '## {version} - YYYY-MM-DD'"
    elif match[1] != version:
        yield f"CHANGELOG.md begins with version {match[1]}, and pyproject.toml is {version}"
    elif date.fromisoformat(match[2]) > today:
        yield f"CHANGELOG.md dates {version} to {match[2]}, which is in the future"


def declared(file: Path) -> str:
    return str(tomllib.loads(file.read_text())["project"]["version"])


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise ReleaseError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def build(root: Path, target: Path, docker_options: list[str]) -> str:
    """Build everything in `target` from the tagged commit only. Returns sentences about the image."""
    commit = git(root, "rev-parse", "HEAD")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="proving-release-") as folder:
        sources = Path(folder)
        _export(root, sources)
        (sources / "cli" / "proving" / "commit.txt").write_text(commit[:12] + "\n")
        _build_wheel(sources / "cli", target, git(root, "log", "-1", "--format=%ct"))
        (sources / "cli" / "proving" / "commit.txt").unlink()
        if engine_answers():
            message = build_image(sources, target, _labels(root), docker_options)
        else:
            message = "No container engine answers, so no image was built."
            contents = sbom.documents(sources)
            sbom.write(target, {name: content for name, content in contents.items() if name != "image.cdx.json"})
    write_checksums(target)
    return message


def _labels(root: Path) -> dict[str, str]:
    """Return the arguments of the Dockerfile for the labels of the image."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return {
        "PROVING_VERSION": project["version"],
        "PROVING_COMMIT": git(root, "rev-parse", "HEAD")[:12],
        "PROVING_CREATED": git(root, "log", "-1", "--format=%cI"),
        "PROVING_SOURCE": project.get("urls", {}).get("Source", ""),
        "PROVING_LICENSES": project.get("license", "NOASSERTION"),
    }


def build_image(sources: Path, target: Path, labels: dict[str, str], docker_options: list[str]) -> str:
    """Build and save the image from base images by digest, and list what is installed in it. Returns sentences about
    it."""
    version = labels["PROVING_VERSION"]
    image = f"proving-ground:{version}"
    used = base_images.names(sources, docker_options)
    images = {name: base_images.pinned(reference) for name, reference in used.items()}
    arguments = labels | {name: images[name] for name in base_images.BUILD}
    built_from = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    _run(["docker", "build", "--tag", image, *docker_options, *built_from, str(sources)])
    _run(["docker", "save", "--output", str(target / f"proving-ground-{version}.tar"), image])
    (target / "images.env").write_text(base_images.variables(images))
    bases = [images[name] for name in base_images.BUILD]
    sbom.write(target, sbom.documents(sources, inventory(image), bases))
    return f"The image is {image}. {base_images.summary(images)}"


def inventory(image: str) -> dict[str, Any]:
    """Return what deploy/inventory.py finds in an image of the server."""
    argv = ["docker", "run", "--rm", "--interactive", "--network=none", "--entrypoint=python", image, "-I", "-"]
    script = Path(__file__).with_name("inventory.py").read_text()
    done = subprocess.run(argv, input=script, capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode:
        raise ReleaseError(f"the components of {image} cannot be listed: {done.stderr.strip()[-500:]}")
    return dict(json.loads(done.stdout))


def _export(root: Path, folder: Path) -> None:
    done = subprocess.run(["git", "-C", str(root), "archive", "HEAD"], capture_output=True, timeout=60, check=True)
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:  # Python before 3.11.4, such as Debian 12's; git made the archive
            archive.extractall(folder)  # noqa: S202


def _build_wheel(source: Path, target: Path, built_at: str) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    # The same commit gives the same bytes.
    argv = [uv, "build", "--quiet", "--wheel", "--no-create-gitignore", "--out-dir", str(target), str(source)]
    _run(argv, SOURCE_DATE_EPOCH=built_at)


def engine_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False).returncode == 0


def _run(argv: list[str], **environment: str) -> None:
    done = subprocess.run(argv, env={**os.environ, **environment}, timeout=BUILD_S, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(argv[:2])} failed with {done.returncode}")


def write_checksums(target: Path) -> None:
    """Write SHA256SUMS in the format of sha256sum -c."""
    files = sorted(file for file in target.iterdir() if file.is_file())
    lines = []
    for file in files:
        with file.open("rb") as data:
            lines.append(f"{hashlib.file_digest(data, 'sha256').hexdigest()}  {file.name}\n")
    (target / "SHA256SUMS").write_text("".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what stops the release")
    options, docker_options = parser.parse_known_args()  # other arguments are passed to docker build
    try:
        messages = list(problems(ROOT, datetime.now(UTC).date()))
        if messages:
            raise ReleaseError("\n".join(messages))
        if options.check:
            return 0
        target = ROOT / "var" / "release" / declared(ROOT / "pyproject.toml")
        print(build(ROOT, target, docker_options))
        print((target / "SHA256SUMS").read_text(), end="")
        print(f"Everything is in {target.relative_to(ROOT)}.")
    except ReleaseError as error:
        print(f"not released:\n{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
