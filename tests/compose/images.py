"""The base images: pulled where a registry can be reached, else stand-ins built from Debian's packages.

A stand-in has the name of the official image, and its paths, accounts and commands as far as docker-compose.yml uses
them. What is measured with it (sizes, times) is that of Debian's packages, not of the official image.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.compose.engine import ROOT, Engine, EngineError
from tests.lab.machines.image import mirrors
from tests.session import needs

RECIPES = Path(__file__).parent / "images"
STAND_INS = {"python:3.13-slim": "python", "postgres:18": "postgres", "redis:8": "redis", "nginx:stable": "nginx"}
DEBIAN = {"debian:trixie-slim": "trixie", "debian:forky-slim": "forky"}
HOST = "proving-ground-test-host"
SCRIPTS = Path("/usr/share/debootstrap/scripts")
UNWANTED = ("var/cache/apt", "var/lib/apt/lists", "dev")
BUILD_S = 1800.0


def provide_all(engine: Engine) -> list[str]:
    """Make every image that the stack and its host need available; the names of the stand-ins."""
    stand_ins = [image for image in STAND_INS if _provide(engine, image)]
    _provide(engine, "debian:trixie-slim")
    _build(engine, HOST, "host")
    return stand_ins


def _provide(engine: Engine, image: str) -> bool:
    """Whether a stand-in for the image was built."""
    if engine.has("image", "inspect", f"{image}"):
        return _is_stand_in(engine, image)
    if engine.has("pull", "--quiet", image):
        return False
    if not engine.is_own:
        raise EngineError(f"{image} cannot be pulled; only an engine that the tests start gets stand-ins")
    if image in DEBIAN:
        _import_debian(engine, image)
    else:
        recipe = STAND_INS[image]
        _provide(engine, _base_of(recipe))
        _build(engine, image, recipe)
    return True


def _is_stand_in(engine: Engine, image: str) -> bool:
    label = '{{index .Config.Labels "stand-in"}}'
    return engine.docker("image", "inspect", f"--format={label}", image).strip() == "yes"


def _base_of(recipe: str) -> str:
    lines = (RECIPES / f"{recipe}.Dockerfile").read_text().splitlines()
    return next(line.removeprefix("FROM ") for line in lines if line.startswith("FROM "))


def _build(engine: Engine, image: str, recipe: str) -> None:
    file = str(RECIPES / f"{recipe}.Dockerfile")
    arguments = ["build", "--quiet", "--label=stand-in=yes", f"--tag={image}", f"--file={file}", str(RECIPES)]
    engine.docker(*arguments, timeout_s=BUILD_S)


def _import_debian(engine: Engine, image: str) -> None:
    """Debian as debootstrap makes it, from the mirror that this machine's apt uses."""
    needs.require("debootstrap")
    release, (mirror, _) = DEBIAN[image], mirrors()
    with tempfile.TemporaryDirectory(prefix="debian.", dir=ROOT) as root:
        script = SCRIPTS / release if (SCRIPTS / release).exists() else SCRIPTS / "sid"
        bootstrap = ["debootstrap", "--variant=minbase", release, root, mirror, str(script)]
        engine.call("unshare", "--mount", *bootstrap, timeout_s=BUILD_S)
        archive = Path(f"{root}.tar")
        unwanted = [f"--exclude=./{path}/*" for path in UNWANTED]
        subprocess.run(
            ["tar", "-C", root, "--one-file-system", *unwanted, "-cf", archive, "."], check=True, timeout=300
        )
        engine.docker("import", str(archive), image)
        archive.unlink()
