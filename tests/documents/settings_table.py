"""docs/reference/settings.md, made from the catalogue of settings and from the tests that prove each for real.

    python -m tests.documents.settings_table

A test says so by its mark: `@pytest.mark.proves("huge_pages", where="here")`, or in one of its parameters:
`pytest.param(..., marks=pytest.mark.proves("numa", where="lab"))`. Marks are read from the source with ast, so that
the table neither depends on the machine nor lists a test that does not exist.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from agents.run.planning import plan_settings
from agents.settings import SETTINGS, Plan, Setting

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "reference" / "settings.md"
CASES = ROOT / "tests" / "agents" / "cases"
WHERE = ("here", "lab")
MOST_NAMES = 5


@dataclass(frozen=True)
class Proving:
    """A test that applies, proves and restores a setting; `where` is here (any Linux, as root) or lab (virtual)."""

    setting: str
    where: str
    test: str


def provings() -> list[Proving]:
    """Every mark of every test file, in order. ValueError for a mark that is not literal or not on a test."""
    files = sorted(ROOT.glob("tests/**/test_*.py"))
    return [proving for file in files for proving in marks(file.read_text(), str(file.relative_to(ROOT)))]


def marks(source: str, name: str) -> list[Proving]:
    """The marks of one file's text; those of a module-level list belong to the tests whose decorators name it."""
    tree = ast.parse(source)
    lists = {target.id: node for node in tree.body for target in _targets(node)}
    carried = [(test, call) for test in _tests(tree) for call in _calls(test.decorator_list, lists)]
    stray = {id(call) for call in _marks_in(tree)} - {id(call) for _, call in carried}
    if stray:
        raise ValueError(f"{name}: {len(stray)} mark(s) `proves` on no test: put them on the test or on its parameters")
    return list(dict.fromkeys(Proving(*_read(call, name), f"{name}::{test.name}") for test, call in carried))


def _targets(node: ast.stmt) -> list[ast.Name]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target for target in targets if isinstance(target, ast.Name)]


def _tests(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def _marks_in(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "proves":
            yield node


def _calls(decorators: list[ast.expr], lists: dict[str, ast.stmt]) -> Iterator[ast.Call]:
    for decorator in decorators:
        yield from _marks_in(decorator)
        named = [node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)]
        for name in named:
            yield from _marks_in(lists[name]) if name in lists else ()


def _read(call: ast.Call, name: str) -> tuple[str, str]:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    values = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
    if len(arguments) != 2 or len(values) != 2 or values[0] not in SETTINGS or values[1] not in WHERE:
        accepted = f'proves("{next(iter(SETTINGS))}", where="here" or "lab"), with a name of SETTINGS, written out'
        raise ValueError(f"{name}:{call.lineno}: {ast.unparse(call)}; accepted: {accepted}")
    return str(values[0]), str(values[1])


def sources(setting: Setting) -> list[str]:
    """Where the proofs of a setting are read: each `"source": ...` of its modules, constants put in."""
    read = [source for module in _modules(setting) for source in _sources(module)]
    own = sys.modules[type(setting).__module__]
    reads_back = "verify" not in vars(type(setting)) or "super().verify" in inspect.getsource(own)
    written = ["each file that was written"] if reads_back and any(plan.writes for plan in plans(setting)) else []
    return list(dict.fromkeys(read + written))


def _modules(setting: Setting) -> list[ModuleType]:
    """A setting's own module, and those that it keeps its proofs in: next to it, and no other setting's."""
    own = sys.modules[type(setting).__module__]
    names = {getattr(value, "__module__", None) or getattr(value, "__name__", "") for value in vars(own).values()}
    settings = {type(each).__module__ for each in SETTINGS.values()}
    beside = [name for name in sorted(names - settings) if name.startswith("agents.settings.") and ".base" not in name]
    return [own, *(sys.modules[name] for name in beside)]


def _sources(module: ModuleType) -> list[str]:
    dicts = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Dict)]
    pairs = [pair for node in dicts for pair in zip(node.keys, node.values, strict=True)]
    return [
        _text(value, vars(module)) for key, value in pairs if isinstance(key, ast.Constant) and key.value == "source"
    ]


def _text(node: ast.expr, names: dict[str, Any]) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, names) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, names)
    if isinstance(node, ast.Constant):
        return str(node.value)
    return str(names.get(node.id, node.id.upper())) if isinstance(node, ast.Name) else "..."


def plans(setting: Setting) -> list[Plan]:
    """What the setting's cases plan: the very plans that test_settings_plan.py holds it to."""
    facts = json.loads((CASES / "facts.json").read_text())
    cases = json.loads((CASES / f"{setting.name}.json").read_text())
    good = [case for case in cases if "error" not in case]
    return [
        plan_settings({**facts, **case.get("facts", {})}, {setting.name: case["wanted"]})[setting.name] for case in good
    ]


def acts(setting: Setting, setting_plans: list[Plan]) -> list[str]:
    """What applying does, in words, one line for each way."""
    keys = dict.fromkeys(_general(write.key) for plan in setting_plans for write in plan.writes)
    names = dict.fromkeys(name for plan in setting_plans for name in plan.conf)
    lines = (
        ["boots the host with kexec or an entry of its boot loader, before anything else"]
        if any(plan.boot for plan in setting_plans)
        else []
    )
    lines += [f"writes {_few(keys)}"] if keys else []
    for who, prefixes in (
        ("PostgreSQL", "server_prefix"),
        ("the load generator", "client_prefix"),
        ("the tracer", "tracer_prefix"),
    ):
        tools = dict.fromkeys(getattr(plan, prefixes)[0] for plan in setting_plans if getattr(plan, prefixes))
        lines += [f"starts {who} under {_few(tools)}"] if tools else []
    limits = dict.fromkeys(file for plan in setting_plans for file, _ in plan.limits)
    lines += [f"starts PostgreSQL in a control group with {_few(limits)}"] if limits else []
    held = dict.fromkeys(hold.path for plan in setting_plans for hold in plan.holds)
    lines += [f"holds {_few(held)} open"] if held else []
    options = dict.fromkeys(option for plan in setting_plans for option in plan.initdb)
    lines += [f"initdb {_few(options)}"] if options else []
    lines += [f"our include file of postgresql.conf: {_few(names)}"] if names else []
    return lines + ([_does(setting)] if type(setting).act is not Setting.act else [])


def _does(setting: Setting) -> str:
    """What an act says of itself."""
    return (type(setting).act.__doc__ or "acts before the load").strip().splitlines()[0].rstrip(".")


def undone(setting_plans: list[Plan]) -> list[str]:
    """How the setting is restored, as text."""
    lines = (
        ["the original, on disk before the write, is written and read back"]
        if any(p.writes for p in setting_plans)
        else []
    )
    lines += ["ends with the processes"] if any(p.server_prefix or p.client_prefix for p in setting_plans) else []
    lines += (
        ["an ordinary restart; command line and kernel are compared; files of the boot loader are restored"]
        if any(p.boot for p in setting_plans)
        else []
    )
    lines += ["the group is removed"] if any(p.limits for p in setting_plans) else []
    lines += ["the kernel takes it back when we let go"] if any(p.holds for p in setting_plans) else []
    lines += ["nothing is left: the cluster is the run's own"] if any(p.initdb for p in setting_plans) else []
    return lines + (["the include file is ours, and goes"] if any(p.conf for p in setting_plans) else [])


def _general(key: str) -> str:
    return re.sub(r"(?<=[/a-z])\d+(?=/|$)", "N", key)


def _few(names: dict[str, None]) -> str:
    shown = [f"`{name}`" for name in names]
    return ", ".join(shown[:MOST_NAMES]) + (", ..." if len(shown) > MOST_NAMES else "")


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, values, about) of each field of a schema."""
    for name, inner in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        if inner.get("properties"):
            yield from fields(inner, below)
        else:
            yield below, values(inner), ". ".join(filter(None, [inner.get("title"), inner.get("description")]))
    rest = schema.get("additionalProperties")
    if isinstance(rest, dict):
        about = schema.get("propertyNames", {}).get("description", "")
        yield f"{path}.NAME".lstrip("."), values(rest), ". ".join(filter(None, [about, rest.get("description")]))


def values(schema: dict[str, Any]) -> str:
    """What a field accepts, in words."""
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return " or ".join(values(choice) for choice in schema[keyword])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any")
    type_text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if type_text == "array":
        return f"list of {values(schema.get('items', {}))}"
    bounds = [f"{schema[word]}" for word in ("minimum", "maximum") if word in schema]
    if len(bounds) == 2:
        type_text += f" {bounds[0]} to {bounds[1]}"
    elif bounds:
        type_text += f" {'from' if 'minimum' in schema else 'up to'} {bounds[0]}"
    return " ".join(filter(None, [type_text, schema.get("unit", "")]))


HEAD = """\
# Settings

All settings of a host, how they are proven, and how they are restored. `python -m tests.documents.settings_table`
generates this page from the catalogue `agents/settings` and from the tests marked `proves`. Do not edit it by hand: a
test compares.

- *Discover*: *asked* if the agent reads the present value from the host; *facts* if it comes from the facts.
- *Privilege*: the level that the agent needs on the host.
- *Tested where*: tests that apply, prove and restore the setting for real, listed below each setting. **here** means
  the machine that runs the tests, as root; **lab** means virtual machines.

| setting | discover | apply | proof read from | restore | privilege | tested where |
|---|---|---|---|---|---|---|
"""


def row(setting: Setting, tested: list[Proving]) -> str:
    setting_plans = plans(setting)
    is_discovered = type(setting).discover is not Setting.discover
    cells = [
        f"[`{setting.name}`](#{setting.name})",
        "asked" if is_discovered else "facts",
        "; ".join(acts(setting, setting_plans)),
        "; ".join(sources(setting)),
        "; ".join(undone(setting_plans)),
        setting.level,
        "; ".join(
            f"{where}: {_count(setting.name, where, tested)}" for where in WHERE if _count(setting.name, where, tested)
        ),
    ]
    return f"| {' | '.join(_cell(cell) for cell in cells)} |\n"


def _count(name: str, where: str, tested: list[Proving]) -> str:
    count = len([each for each in tested if (each.setting, each.where) == (name, where)])
    return f"{count} test{'' if count == 1 else 's'}" if count else ""


def section(setting: Setting, tested: list[Proving]) -> str:
    """One setting with its fields and its tests."""
    lines = [f"\n## {setting.name}\n", f"{setting.title}. {setting.help}.\n", f"- Risk: {setting.risk}"]
    lines += [f"- Unit: {setting.unit}"] if setting.unit else []
    lines += [f"- Needs {', '.join(f'`{tool}`' for tool in setting.tools)} on the host"] if setting.tools else []
    lines += ["\n| field | accepts | about |", "|---|---|---|"]
    lines += [f"| `{path}` | {_cell(accepts)} | {_cell(about)} |" for path, accepts, about in fields(setting.schema)]
    ours = [each for each in tested if each.setting == setting.name]
    lines += ["\nTests:\n", *(f"- {each.where}: `{each.test}`" for each in ours)] if ours else []
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def render() -> str:
    """The whole document."""
    tested = provings()
    rows = "".join(row(setting, tested) for setting in SETTINGS.values())
    return HEAD + rows + "".join(section(setting, tested) for setting in SETTINGS.values())


if __name__ == "__main__":
    DOCUMENT.write_text(render())
    sys.stdout.write(f"{DOCUMENT.relative_to(ROOT)} is written\n")
