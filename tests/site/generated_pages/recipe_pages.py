"""A how-to for each built-in recipe, from its YAML and docs/guides/recipes.md."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agents.workloads import WORKLOADS
from apps.accounts.templatetags.pages import span
from apps.campaigns import recipes
from apps.campaigns.design import data, plan, steps
from apps.campaigns.queries import FEWEST, NEWEST
from apps.campaigns.recipes.levels import GENERATORS
from apps.campaigns.recipes.reference import REFERENCE
from apps.campaigns.recipes.scale import NUMBERS, PLACEHOLDERS
from tests.site import markdown, navigation
from tests.site.sources import ROOT

Recipe = recipes.Recipe
DOCUMENT = ROOT / "docs" / "guides" / "recipes.md"
UP = "../../docs/"
MOST_LEVELS = 12
# The host of apps/campaigns/recipes/reference.py, in words.
EXAMPLE = (
    "two NUMA nodes of four CPUs each, 64 GB of memory, a disk with 500 GB free and two schedulers, two sizes of huge "
    "pages, PostgreSQL 17 and 18"
)
# What stands in an option for a number of the host.
FOLLOWS = {
    "cpus": "the number of CPUs that the host's account may use",
    "four_times_memory": "data of four times the memory",
    "table_of_memory": "a table as large as the memory, at most 64 GiB, and a third of the free space",
    "{jobs}": "the number of CPUs, at most 64",
    "{size}": "a twentieth of the free space in the fullest directory, 64 MiB to 10 GiB",
    "{seconds}": "180 from 16 CPUs on, else 30",
    "{ramp}": "6 from 16 CPUs on, else 2",
}
ORDERS = {
    "randomised": "every combination once in each repetition, in an order drawn from a seed",
    "as_given": "as the levels are listed",
    "descending": "from the last level to the first",
    "abba": "as listed, then reversed, alternately",
    "fewest_restarts": "with the fewest restarts",
}
REBOOTS = {
    "never": "The host is not restarted, unless [the campaign chooses that](../../docs/hosts.md#planned-restarts).",
    "each_repetition": "The host is restarted before each repetition.",
    "each_run": "The host is restarted before each run.",
}


def pages() -> dict[str, str]:
    """Path without .md -> text: one of each recipe, and one that leads to them."""
    document_rows = markdown.rows(DOCUMENT.read_text())
    made = {
        f"{navigation.RECIPES}/{name}": page(name, recipe, document_rows)
        for name, recipe in recipes.catalogue().items()
    }
    return {f"{navigation.RECIPES}/index": _overview(), **made}


def _overview() -> str:
    catalogue = recipes.catalogue()
    rows = [(f"[{each['title']}]({name}.md)", each["question"], _level(each)) for name, each in catalogue.items()]
    tree = ["```{toctree}", ":hidden:", "", *catalogue, "```", ""]
    lead = (
        "Each page has the question of a recipe, its factors and how they follow the host, its restarts, its duration, "
        "and how to start it. The pages are generated from the recipes. "
        f"[Recipes]({UP}guides/recipes.md) describes the format, and how to import your own.\n"
    )
    return "\n".join(["# Recipe catalogue\n", lead, markdown.table(("recipe", "question", "level"), rows), *tree])


def page(name: str, recipe: Recipe, document_rows: list[list[str]]) -> str:
    """`document_rows` are the rows of the tables of docs/guides/recipes.md."""
    parts = (
        _head(recipe),
        _needs(name, recipe, document_rows),
        _varied(recipe),
        _steps(recipe),
        _restarts(recipe),
        _hours(recipe),
        _answer(recipe),
        _start(name, recipe),
        _results(name, document_rows),
        "## The recipe\n\n" + markdown.fenced(recipes.texts()[name], "yaml"),
    )
    return "\n".join(parts)


def _head(recipe: Recipe) -> str:
    asks = recipes.texts()[recipe["name"]].splitlines()[0]
    when = f"When you ask: *{asks.lstrip('# ')}*\n" if asks.startswith("#") else ""
    return (
        f"# {recipe['title']}\n\n**{recipe['question']}**\n\n## When to use it\n\n{when}\n{recipe['about'].strip()}\n"
    )


def _level(recipe: Recipe) -> str:
    return recipe.get("needs", "user")


def _needs(name: str, recipe: Recipe, document_rows: list[list[str]]) -> str:
    """Its level, the tools of its steps, and what docs/guides/recipes.md says besides."""
    stated = next((row[2] for row in document_rows if row[0] == f"`{name}.yaml`"), "")
    tools = dict.fromkeys(tool for step in recipe["steps"] for tool in WORKLOADS[step["kind"]].needs(step["options"]))
    lines = [f"- A host of level *{_level(recipe)}*, see [privileges]({UP}hosts.md#privileges)."]
    lines += [f"- On the host: {markdown.code(tools)}."] if tools else []
    known = {"level root", *(f"`{tool}`" for tool in tools)}
    further = ", ".join(each for each in stated.split(", ") if each and each not in known)
    lines += [f"- Also: {markdown.moved(further, 'guides/recipes.md', UP)}."] if further else []
    return "\n".join(["## What it needs\n", *lines, ""])


def _varied(recipe: Recipe) -> str:
    there = {factor["name"]: factor for factor in recipes.factors(recipe, REFERENCE)}
    rows = [
        (f"`{each['name']}`", _paths(each), _levels(each), _labels(there[each["name"]])) for each in recipe["factors"]
    ]
    head = ("factor", "sets", "levels", "on the host of the example")
    design = recipe.get("design", "factorial").replace("_", " ")
    held = recipe.get("settings")
    lines = [
        "## What it varies\n",
        markdown.table(head, rows),
        f"The design is {design}, see [campaigns]({UP}guides/campaigns.md). Levels follow the facts of the host that "
        f"you choose; the example is a host of {EXAMPLE}. You can remove, change or add levels in the form.\n",
    ]
    lines += ["The same in all runs, unless a profile is chosen:\n", _held(held)] if held else []
    return "\n".join(lines)


def _paths(factor: Mapping[str, Any]) -> str:
    named = [factor["path"]] if "path" in factor else [path for level in factor["levels"] for path in level["set"]]
    return markdown.code(dict.fromkeys(named)) or "nothing"


def _levels(factor: Mapping[str, Any]) -> str:
    if "generate" not in factor:
        return ", ".join(level["label"] for level in factor["levels"])
    rule = " ".join((inspect.getdoc(GENERATORS[factor["generate"]]) or "").split("\n\n")[0].split())
    return f"{rule} (`{factor['generate']}`)"


def _labels(factor: Mapping[str, Any]) -> str:
    labels = [level["label"] for level in factor["levels"]]
    return ", ".join(labels[:MOST_LEVELS]) + (f" and {len(labels) - MOST_LEVELS} more" if labels[MOST_LEVELS:] else "")


def _held(settings: Mapping[str, Any]) -> str:
    pairs = [
        (f"`{kind}`", ", ".join(f"{name} = {value}" for name, value in each.items())) for kind, each in settings.items()
    ]
    return markdown.table(("setting", "value"), pairs)


def _steps(recipe: Recipe) -> str:
    scaled = recipes.steps(recipe, REFERENCE)
    rows = [(f"`{each['name']}`", each["role"], each["kind"], span(steps.seconds([each]))) for each in scaled]
    lines = ["## What a run does\n", markdown.table(("step", "role", "tool", "about"), rows)]
    follows = [f"- `{word}`: {FOLLOWS[word]}" for word in (*NUMBERS, *PLACEHOLDERS) if word in _texts(recipe)]
    lines += ["Options that follow the host:\n", *follows, ""] if follows else []
    return "\n".join([*lines, "The reference has the [options of each tool](../../reference/workloads.md).\n"])


def _texts(recipe: Recipe) -> str:
    """The options of its steps and data, with words in place of numbers of the host."""
    options = [*(step["options"] for step in recipe["steps"]), recipe.get("dataset", {}).get("options", {})]
    values = [str(value) for option in options for value in option.values()]
    return " ".join(value for value in values if value in NUMBERS or any(word in value for word in PLACEHOLDERS))


def _restarts(recipe: Recipe) -> str:
    return f"## What it restarts\n\n{recipe['restarts']} {REBOOTS[recipe.get('reboot', 'never')]}\n"


def _hours(recipe: Recipe) -> str:
    runs = recipes.planned(recipe)
    blocks = recipe["repetitions"]
    load_s, data_s = steps.seconds(recipes.steps(recipe, REFERENCE)), creation_s(run.spec for run in runs)
    restarts = sum(plan.restarts(run.spec) for run in runs)
    total_s = sum(plan.seconds(run.spec) for run in runs)
    rows = [
        ("runs", f"combinations x repetitions: {len(runs) // blocks} x {blocks} = {len(runs)}"),
        ("load of a run", f"the seconds of its steps: {span(load_s)}"),
        ("overhead", _overhead()),
        ("a restart of the host", f"{span(plan.REBOOT_S)} until one was measured; number of restarts: {restarts}"),
        ("total", f"runs x (load + overhead) + restarts: about {span(total_s)}"),
    ]
    if data_s:
        pace = f"{data.PACE / 1e6:.0f} MB/s"
        rows.append(
            (
                "data, once per host",
                f"their bytes at {pace}, an estimate: {span(data_s)}; see [data sets]({UP}guides/datasets.md)",
            )
        )
    lead = "The estimate of the preview, for the host of the example:\n"
    return "\n".join(["## How long it takes\n", lead, markdown.table(("part", "estimate"), rows)])


def _overhead() -> str:
    enough = f"if {FEWEST} or more are among the newest {NEWEST} of the host"
    return f"{span(plan.OVERHEAD_S)} at first; then the median overhead of runs of the same shape, {enough}"


def creation_s(specs: Iterable[Mapping[str, Any]]) -> float:
    """Of all data sets that the runs use, each created once."""
    used: list[Any] = []
    for dataset in (spec.get("dataset") for spec in specs):
        used += [] if dataset in used else [dataset]
    return sum(map(data.seconds, used))


def _answer(recipe: Recipe) -> str:
    better = steps.metric(steps.read(recipes.steps(recipe, REFERENCE)), recipe["metric"])
    order = recipe["order"]
    lines = [
        f"- The metric is `{recipe['metric']}` in {better.unit}; {better.better} is better.",
        f"- The minimum effect is {recipe['delta'] * 100:g} %. Each combination runs {recipe['repetitions']} times.",
        f"- Order: *{order.replace('_', ' ')}*, {ORDERS[order]}.",
        f"- Chart: {recipe['chart']}",
        f"- The verdict is explained in [how a verdict is reached]({UP}background/statistics.md).",
    ]
    return "\n".join(["## How it is judged\n", *lines, ""])


def _start(name: str, recipe: Recipe) -> str:
    browser = (
        "**In the browser**: choose **Campaigns**, **New campaign**, and **Use this recipe** on the card "
        f'"{recipe["title"]}". Choose the host, check the plan and its duration, and choose **Start**.\n'
    )
    shell = f"proving run {name} --host db1 --watch\n" + "".join(_fewer(name, recipe))
    calls = (
        f"GET  /api/v1/recipes/{name}/preview/?host=1\n"
        f'POST /api/v1/campaigns/            {{"recipe": "{name}", "host": 1}}\n'
        "POST /api/v1/campaigns/ID/start/\n"
    )
    lines = [
        "## Start it\n",
        browser,
        f"**From a shell**, see [the command line]({UP}reference/cli.md):\n",
        markdown.fenced(shell),
    ]
    return "\n".join([*lines, f"**Over the API**, see [the tour]({UP}reference/api.md):\n", markdown.fenced(calls)])


def _fewer(name: str, recipe: Recipe) -> Iterator[str]:
    """The same with two levels of its first factor, where it has more."""
    factor = recipes.factors(recipe, REFERENCE)[0]
    labels = [f'"{level["label"]}"' if "," in level["label"] else level["label"] for level in factor["levels"]]
    if len(labels) > 2:
        yield f"proving run {name} --host db1 --set '{factor['name']}={labels[0]},{labels[1]}' --watch\n"


def _results(name: str, document_rows: list[list[str]]) -> str:
    row = next(
        (document_row for document_row in document_rows if document_row[0] == f"`{name}`" and len(document_row) == 4),
        None,
    )
    if row is None:
        return "## Results of a trial run\n\nThere are no results yet.\n"
    _, small, runs, sentence = (markdown.moved(each, "guides/recipes.md", UP) for each in row)
    lines = (
        [f"- Reduced: {small}", *([f"- Runs: {runs}"] if runs else []), f"- {sentence}"] if small else [f"- {sentence}"]
    )
    link = f"[trial runs]({UP}guides/recipes.md#results-of-trial-runs)"
    where = f"For the machine, the day and the limits of this result, see {link}.\n"
    return "\n".join(["## Results of a trial run\n", where, *lines, ""])
