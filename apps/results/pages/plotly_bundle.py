"""The part of plotly.min.js that the charts need: a quarter of it.

The bundle is written by esbuild: each module of Plotly is a top-level `var NAME=HELPER((exports,module)=>{...})`, and
runs when another one calls `NAME()`. The last module registers all types of traces. So without the types that no chart
has, the modules that only they call can be left out. The text of the other modules is not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.errors import FormatError

# The functions of esbuild that make a module run once: those of CommonJS, and those of ES modules.
COMMONJS = re.compile(r"var ([\w$]+)=\(\w,\w\)=>\(\)=>\{try\{return \w\|\|\w\(\(\w=\{exports:\{\}\}\)\.exports")
ES_MODULES = re.compile(r"var ([\w$]+)=\(\w,\w,\w\)=>\(\)=>\{if\(\w\)throw \w\[0\]")
CALL = re.compile(r"(?<![\w$.])([\w$]+)\(\)")
ENTRY = re.compile(r"return ([\w$]+)\(\);\}\)\(\);")
REGISTER = re.compile(r"\.register\(\[((?:[\w$]+\(\),?)+)\]\)")
TRACE = re.compile(r'moduleType:"trace",name:"(\w+)"')
ALIAS = re.compile(r"\.exports=([\w$]+)\(\)")
HINT = "apps/results/pages/plotly_bundle.py must be changed for this version of Plotly"


@dataclass
class Bundle:
    """The text before the first module, the modules, and the text that runs the last one. `positions` has the place of
    each name in `modules`: a piece of text may hold one CommonJS module and the ES modules that follow it."""

    head: str
    modules: list[str]
    tail: str
    positions: dict[str, int]


def reduce_bundle(source: str, traces: Sequence[str]) -> str:
    """Return `source`, a plotly.min.js, without the modules that charts of `traces` never call.

    FormatError, if esbuild or Plotly have changed how the bundle is built.
    """
    bundle = _parse(source)
    entry = bundle.positions[_one(ENTRY, bundle.tail, "call of the last module")[1]]
    registered = _one(REGISTER, bundle.modules[entry], "list of registered traces")[1]
    remaining = [call for call in registered.split(",") if _trace_type(bundle, call.removesuffix("()")) in traces]
    bundle.modules[entry] = bundle.modules[entry].replace(registered, ",".join(remaining))
    needed = _reachable(bundle, entry)
    reduced = "".join([bundle.head, *(bundle.modules[place] for place in sorted(needed)), bundle.tail])
    if missing := set(traces) - set(TRACE.findall(reduced)):
        raise FormatError("plotly.min.js", f"no module draws {', '.join(sorted(missing))}", hint=HINT)
    return reduced


def _parse(source: str) -> Bundle:
    commonjs, es_modules = (re.escape(_one(each, source, "helper of esbuild")[1]) for each in (COMMONJS, ES_MODULES))
    starts = [match.start() for match in re.finditer(rf"var [\w$]+={commonjs}\(", source)]
    if len(starts) != len(re.findall(rf"(?<![\w$.]){commonjs}\(", source)):
        raise FormatError("plotly.min.js", "not every module begins a statement", hint=HINT)
    end = _one(ENTRY, source, "call of the last module").start()
    modules = [source[start:stop] for start, stop in zip(starts, [*starts[1:], end], strict=True)]
    names = re.compile(rf"(?<![\w$.])([\w$]+)=(?:{commonjs}|{es_modules})\(")
    positions = {name: place for place, module in enumerate(modules) for name in names.findall(module)}
    return Bundle(source[: starts[0]], modules, source[end:], positions)


def _one(pattern: re.Pattern[str], text: str, name: str) -> re.Match[str]:
    matches = list(pattern.finditer(text))
    if len(matches) != 1:
        raise FormatError("plotly.min.js", f"expected one {name}, found {len(matches)}", hint=HINT)
    return matches[0]


def _trace_type(bundle: Bundle, name: str) -> str:
    """Return the type of trace that a module draws, which may only pass on another one; "" for other modules."""
    while name in bundle.positions:
        module = bundle.modules[bundle.positions[name]]
        if match := TRACE.search(module):
            return match[1]
        passed_on = ALIAS.search(module)
        name = passed_on[1] if passed_on else ""
    return ""


def _reachable(bundle: Bundle, entry: int) -> set[int]:
    needed, to_read = {entry}, [entry]
    while to_read:
        called = set(_called(bundle, to_read.pop())) - needed
        needed |= called
        to_read += called
    return needed


def _called(bundle: Bundle, place: int) -> Iterator[int]:
    for name in CALL.findall(bundle.modules[place]):
        if name in bundle.positions:
            yield bundle.positions[name]
