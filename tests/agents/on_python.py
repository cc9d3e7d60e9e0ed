"""Results of the agent's pure parts as JSON, for a Python without pytest. Standard library only.

python3.9 -I on_python.py AGENT.pyz CASES
"""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any


def main(program: str, cases: Path) -> dict[str, Any]:
    """{"modules": all of the agent's, imported; "plans": what each case of cases/*.json plans; "wire": one frame}."""
    sys.path.insert(0, program)
    return {"modules": imported(program), "plans": plans(cases), "wire": wire()}


def imported(program: str) -> list[str]:
    files = (name for name in zipfile.ZipFile(program).namelist() if name.startswith("agents/"))
    names = [name[: -len(".py")].replace("/", ".") for name in files]
    for name in names:
        importlib.import_module(name)
    return names


def plans(cases: Path) -> dict[str, Any]:
    from agents.errors import Unplannable
    from agents.run.planning import plan_settings
    from agents.settings import SETTINGS

    facts, outcomes = json.loads((cases / "facts.json").read_text()), {}
    for name in SETTINGS:
        for case in json.loads((cases / f"{name}.json").read_text()):
            try:
                planned = plan_settings({**facts, **case.get("facts", {})}, {name: case["wanted"]})
                outcomes[f"{name}: {case['name']}"] = planned[name].lines()
            except Unplannable as refusal:
                outcomes[f"{name}: {case['name']}"] = refusal.as_json()
    return outcomes


def wire() -> dict[str, Any]:
    from agents.wire import protocol

    message = {"verb": "hello", "args": {"umlaut": "ü", "number": 1e-7, "null": None}}
    frame = protocol.encode(message)
    reader = protocol.FrameReader()
    received = [*reader.feed(b"Welcome!\n" + frame[:9]), *reader.feed(frame[9:])]
    return {"frame": frame.hex(), "intact": received == [message], "greeting": reader.greeting.decode()}


if __name__ == "__main__":
    json.dump(main(sys.argv[1], Path(sys.argv[2])), sys.stdout, sort_keys=True)
