"""Parse the report that pgbench 9.4 to 18 prints on stdout.

Source: printResults() in src/bin/pgbench/pgbench.c of each release, and samples of real runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from common.errors import FormatError
from readers.text import INT, NUMBER, Rule, is_unfinished, lines_of, rule, rule_for, shown

WHERE = "pgbench stdout"

INCLUDING = "including connections establishing"
EXCLUDING = "excluding connections establishing"
WITHOUT_INITIAL = "without initial connection time"
RECONNECTING = "including reconnection times"


@dataclass(frozen=True)
class Statement:
    """One line of -r: a statement (or meta command) of a script and its mean latency."""

    sql: str
    latency_ms: float
    failures: int | None = None
    retries: int | None = None


@dataclass(frozen=True)
class Script:
    """The figures of one script. `name` is None if there was only one, because then pgbench prints no name."""

    name: str | None = None
    weight: int | None = None
    target_pct: float | None = None
    transactions_total: int | None = None
    pct: float | None = None
    transactions_processed: int | None = None
    tps: float | None = None
    failed: int | None = None
    serialization_failures: int | None = None
    deadlock_failures: int | None = None
    retried: int | None = None
    retries: int | None = None
    skipped: int | None = None
    latency_avg_ms: float | None = None
    latency_stddev_ms: float | None = None
    statements: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Summary:
    """A complete report. Fields that the release or the options do not print are None.

    `tps`: the rate without connecting if pgbench prints it; `tps_definition` has pgbench's own words. Up to 13,
    `tps_including` is the rate with connecting. `transactions_expected`: with -t only. `missing`: what is lost if
    the output ends within scripts or statements. An end between two statements of a script that is not built in
    cannot be detected."""

    transaction_type: str
    query_mode: str
    clients: int
    threads: int
    transactions: int
    tps: float
    tps_definition: str
    tps_including: float | None = None
    scaling_factor: int | None = None
    pgbench_version: str | None = None
    server_version: str | None = None
    partition_method: str | None = None
    partitions: int | None = None
    max_tries: int | None = None
    duration_s: int | None = None
    transactions_per_client: int | None = None
    transactions_expected: int | None = None
    failed: int | None = None
    failed_pct: float | None = None
    serialization_failures: int | None = None
    deadlock_failures: int | None = None
    retried: int | None = None
    retried_pct: float | None = None
    retries: int | None = None
    skipped: int | None = None
    skipped_pct: float | None = None
    latency_limit_ms: float | None = None
    late: int | None = None
    late_of: int | None = None
    late_pct: float | None = None
    latency_avg_ms: float | None = None
    latency_avg_includes_failures: bool = False
    latency_stddev_ms: float | None = None
    lag_avg_ms: float | None = None
    lag_max_ms: float | None = None
    initial_connection_ms: float | None = None
    avg_connection_ms: float | None = None
    scripts: tuple[Script, ...] = ()
    other_lines: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements of all scripts, in the order of the report."""
        return tuple(statement for script in self.scripts for statement in script.statements)

    @property
    def short_by(self) -> int:
        """The transactions that -t asked for and that neither ended, failed nor were skipped, because a client
        aborted."""
        if self.transactions_expected is None:
            return 0
        return max(0, self.transactions_expected - self.transactions - (self.failed or 0) - (self.skipped or 0))


def _percent(name: str) -> str:
    # 0 of 0 is printed as NaN or -nan; 9.5 to 14 print a space before the sign in some lines.
    return rf"\((?:-?nan|NaN|(?P<{name}>{NUMBER})) ?%\)"


def _count(prefix: str, name: str, percent: str = "") -> Rule:
    # Inside script blocks the percentage repeats the counts and is ignored.
    tail = " " + (_percent(percent) if percent else r"\([^)]*%\)")
    types: dict[str, Any] = {name: int, **({percent: float} if percent else {})}
    return rule(prefix, rf"(?P<{name}>{INT}){tail}", **types)


_TPS = rule(
    "tps = ",
    rf"(?P<value>{NUMBER}) \((?P<definition>{INCLUDING}|{EXCLUDING}|{WITHOUT_INITIAL}|{RECONNECTING})\)",
    value=float,
    definition=str,
)

_HEAD = (
    rule(
        "pgbench (",
        r"(?P<pgbench_version>.{1,200}?)(?:, server (?P<server_version>.{1,200}))?\)",
        pgbench_version=str,
        server_version=str,
    ),
    rule("transaction type: ", r"(?P<transaction_type>.+)", transaction_type=str),
    rule("scaling factor: ", rf"(?P<scaling_factor>{INT})", scaling_factor=int),
    rule("query mode: ", r"(?P<query_mode>simple|extended|prepared)", query_mode=str),
    rule("number of clients: ", rf"(?P<clients>{INT})", clients=int),
    rule("number of threads: ", rf"(?P<threads>{INT})", threads=int),
    rule("partition method: ", r"(?P<partition_method>\w+)", partition_method=str),
    rule("partitions: ", rf"(?P<partitions>{INT})", partitions=int),
    rule("maximum number of tries: ", rf"(?P<max_tries>{INT})", max_tries=int),
    rule("duration: ", rf"(?P<duration_s>{INT}) s", duration_s=int),
    rule("number of transactions per client: ", rf"(?P<transactions_per_client>{INT})", transactions_per_client=int),
    rule(
        "number of transactions actually processed: ",
        rf"(?P<transactions>{INT})(?:/(?P<transactions_expected>{INT}))?",
        transactions=int,
        transactions_expected=int,
    ),
    _count("number of failed transactions: ", "failed", "failed_pct"),
    _count("number of serialization failures: ", "serialization_failures"),
    _count("number of deadlock failures: ", "deadlock_failures"),
    _count("number of transactions retried: ", "retried", "retried_pct"),
    rule("total number of retries: ", rf"(?P<retries>{INT})", retries=int),
    _count("number of transactions skipped: ", "skipped", "skipped_pct"),
    rule(
        "number of transactions above the ",
        rf"(?P<latency_limit_ms>{NUMBER}) ms latency limit: (?P<late>{INT})(?:/(?P<late_of>{INT}))? "
        + _percent("late_pct"),
        latency_limit_ms=float,
        late=int,
        late_of=int,
        late_pct=float,
    ),
    rule(
        "latency average",
        rf"(?: =|:) (?P<latency_avg_ms>{NUMBER}) ms(?P<latency_avg_includes_failures> \(including failures\))?",
        latency_avg_ms=float,
        latency_avg_includes_failures=bool,
    ),
    rule("latency stddev", rf"(?: =|:) (?P<latency_stddev_ms>{NUMBER}) ms", latency_stddev_ms=float),
    rule(
        "rate limit schedule lag: ",
        rf"avg (?P<lag_avg_ms>{NUMBER}) \(max (?P<lag_max_ms>{NUMBER})\) ms",
        lag_avg_ms=float,
        lag_max_ms=float,
    ),
    rule("initial connection time = ", rf"(?P<initial_connection_ms>{NUMBER}) ms", initial_connection_ms=float),
    rule("average connection time = ", rf"(?P<avg_connection_ms>{NUMBER}) ms", avg_connection_ms=float),
)

_SCRIPT_NAME = re.compile(rf"SQL script {INT}: (?P<name>.+)")
_SCRIPT = (
    rule(
        " - weight: ",
        rf"(?P<weight>{INT}) \(targets (?P<target_pct>{NUMBER})% of total\)",
        weight=int,
        target_pct=float,
    ),
    _count(" - number of failed transactions: ", "failed"),
    _count(" - number of serialization failures: ", "serialization_failures"),
    _count(" - number of deadlock failures: ", "deadlock_failures"),
    _count(" - number of transactions retried: ", "retried"),
    rule(" - total number of retries: ", rf"(?P<retries>{INT})", retries=int),
    _count(" - number of transactions skipped: ", "skipped"),
    rule(" - latency average", rf" = (?P<latency_avg_ms>{NUMBER}) ms", latency_avg_ms=float),
    rule(" - latency stddev", rf" = (?P<latency_stddev_ms>{NUMBER}) ms", latency_stddev_ms=float),
    rule(
        " - number of transactions actually processed: ",
        rf"(?P<transactions_processed>{INT}) \(tps = (?P<tps>{NUMBER})\)",
        transactions_processed=int,
        tps=float,
    ),
    rule(
        " - ",
        rf"(?P<transactions_total>{INT}) transactions \((?P<pct>{NUMBER})% of total(?:, tps = (?P<tps>{NUMBER}))?\)",
        transactions_total=int,
        pct=float,
        tps=float,
    ),
)

_STATEMENTS = "statement latencies in milliseconds"
_FILE = re.compile(rf", file ({INT}):")
_COLUMNS = {":": 0, " and failures:": 1, ", failures and retries:": 2}
_STATEMENT = tuple(
    re.compile(rf"\s+(?P<latency_ms>{NUMBER})" + rf"\s+({INT})" * count + r"\s+(?P<sql>\S.*)") for count in range(3)
)


@dataclass
class _Reader:
    """Reads the lines in one pass; its fields hold what has been read."""

    head: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    scripts: list[dict[str, Any]] = field(default_factory=list)
    other_lines: list[str] = field(default_factory=list)
    columns: int | None = None  # statement block to which the next line may belong

    def line(self, line: str, where: str) -> None:
        if self.columns is not None and line[:1].isspace() and not line.startswith(" - "):
            self._statement(line, where)
        elif line.removeprefix(" - ").startswith(_STATEMENTS):
            self._statement_header(line, where)
        elif line.startswith(" - "):
            self._script_line(line, where)
        else:
            self.columns = None
            self._head_line(line, where)

    @staticmethod
    def closes(line: str) -> bool:
        """Return whether a line without a newline is complete anyway: it ends in the text after its last figure."""
        known = line.startswith(_TPS.prefix) or rule_for(line, _HEAD) or rule_for(line, _SCRIPT)
        return bool(known) and line.endswith((")", " ms", " s"))

    def _head_line(self, line: str, where: str) -> None:
        named = _SCRIPT_NAME.fullmatch(line)
        rule = rule_for(line, _HEAD)
        if named:
            self.scripts.append({"name": named["name"]})
        elif line == "script statistics:":
            self.scripts.append({})
        elif line.startswith(_TPS.prefix):
            rate = _TPS.read(line, where)
            _put(self.rates, {rate["definition"]: rate["value"]}, where)
        elif rule:
            _put(self.head, rule.read(line, where), where)
        else:
            self.other_lines.append(line)

    def _script_line(self, line: str, where: str) -> None:
        rule = rule_for(line, _SCRIPT)
        if rule is None or not self.scripts:
            raise FormatError(
                where,
                f"{shown(line)} has no place in the report",
                hint="it belongs to a script, but no script is named above it",
            )
        self.columns = None
        _put(self.scripts[-1], rule.read(line, where), where)

    def _statement_header(self, line: str, where: str) -> None:
        rest = line.removeprefix(" - ").removeprefix(_STATEMENTS)
        # Up to 9.5 the report only has the number of a script.
        file = _FILE.fullmatch(rest)
        if file:
            self.scripts.append({"name": f"file {file[1]}"})
            rest = ":"
        if rest not in _COLUMNS:
            raise FormatError(
                where, f"unknown columns in {shown(line)}", hint="the output is cut or of an unknown version"
            )
        self.columns = _COLUMNS[rest]
        if not line.startswith(" - ") and not file:
            self.scripts.append({})
        _put(self.scripts[-1] if self.scripts else {}, {"statements": []}, where)

    def _statement(self, line: str, where: str) -> None:
        match = _STATEMENT[self.columns or 0].fullmatch(line)
        if match is None or not self.scripts:
            raise FormatError(where, f"cannot read the statement {shown(line)}", hint="the output is cut or edited")
        counts = [int(group) for group in match.groups()[1:-1]]
        self.scripts[-1]["statements"].append(Statement(match["sql"], float(match["latency_ms"]), *counts))


def _put(fields: dict[str, Any], line_fields: dict[str, Any], where: str) -> None:
    repeated = sorted(fields.keys() & line_fields.keys())
    if repeated:
        raise FormatError(where, f"{repeated[0]} appears twice", hint="give one report at a time")
    fields.update(line_fields)


def parse_summary(raw: bytes) -> Summary:
    """Parse the report of one run. Raises FormatError if it is incomplete: a killed run prints no tps."""
    reader, lines = _Reader(), lines_of(raw, WHERE)
    cut = is_unfinished(raw) and not reader.closes(lines[-1].rstrip())
    for number, line in enumerate(lines[:-1] if cut else lines, 1):
        if line.strip():
            reader.line(line.rstrip(), f"{WHERE}, line {number}")
    _check_head(reader.head)
    _check_scripts(reader)
    return Summary(
        **reader.head,
        **_rates(reader),
        scripts=tuple(
            Script(**{**script, "statements": tuple(script.get("statements", ()))}) for script in reader.scripts
        ),
        other_lines=tuple(reader.other_lines),
        missing=(*_missing(reader.head["transaction_type"], reader.scripts), *(["the rest of the last line"] * cut)),
    )


def _check_head(head: dict[str, Any]) -> None:
    required = ("transaction_type", "query_mode", "clients", "threads", "transactions")
    missing = [name for name in required if name not in head]
    if missing:
        raise FormatError(
            WHERE, f"the output contains no {missing[0].replace('_', ' ')}", hint="it is not a complete pgbench report"
        )


def _check_scripts(reader: _Reader) -> None:
    targets = [script["target_pct"] for script in reader.scripts if "target_pct" in script]
    many = reader.head["transaction_type"] == "multiple scripts"
    # Each share is rounded to one decimal, so the sum may be off by half a decimal per script.
    if many and abs(sum(targets) - 100) > 0.05 * len(targets) + 0.01:
        raise FormatError(WHERE, "the blocks of some scripts are missing", hint="the output is cut")


# The last statement of each built-in script, by the last words of its name in all releases.
_LAST = {
    "TPC-B (sort of)": "END;",
    "simple update": "END;",
    "Simple Update": "END;",
    "select only": "SELECT ",
    "SELECT only": "SELECT ",
}


def _missing(transaction_type: str, scripts: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the last script lacks in comparison with the others, or with the built-in script of its name."""
    if not scripts:
        return
    last, name = scripts[-1], scripts[-1].get("name") or transaction_type
    if last.get("transactions_total") != 0:
        yield from (f"{key} of {name}" for key in scripts[0] if key not in last)
    end = _LAST.get(name.removeprefix("<builtin: ").removesuffix(">"), "")
    if "statements" in last and not (last["statements"] and last["statements"][-1].sql.startswith(end)):
        yield f"statements of {name}"


def _rates(reader: _Reader) -> dict[str, Any]:
    rates = reader.rates
    newer = [definition for definition in (WITHOUT_INITIAL, RECONNECTING) if definition in rates]
    if len(rates) == 1 and newer:
        return {"tps": rates[newer[0]], "tps_definition": newer[0]}
    if rates.keys() == {INCLUDING, EXCLUDING}:
        return {"tps": rates[EXCLUDING], "tps_definition": EXCLUDING, "tps_including": rates[INCLUDING]}
    if not rates and reader.head["transactions"] == 0:
        raise FormatError(WHERE, "no transaction was processed, so there is no tps", hint="see stderr for the reason")
    if not rates:
        raise FormatError(WHERE, "no tps line", hint="the run was killed or the output is cut")
    raise FormatError(
        WHERE, f"the tps lines belong to different reports: {', '.join(rates)}", hint="the output is cut or edited"
    )
