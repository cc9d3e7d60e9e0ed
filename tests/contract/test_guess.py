"""The kind of an output is detected from its content alone; an ambiguous one needs the option."""

from __future__ import annotations

import json

import pytest

from common.errors import FormatError
from readers.formats import FORMATS
from readers.guess import as_json, guess, read
from tests.contract.readers.kinds import KINDS
from tests.contract.test_formats import EXPECTED, SAMPLES

# An error of psql in place of a plan; a table without its header could be of any tool.
OTHERWISE = {"hostile-explain-syntax_error.txt": "psql-error"}
NOBODYS = {"hostile-csv-no_header.csv", "hostile-fio-scalar.json", "hostile-fio-deep.json"}
WHOLE = [
    name
    for name, entry in EXPECTED.items()
    if entry["kind"] in KINDS and name not in NOBODYS and (SAMPLES / name).read_bytes().strip()
]


@pytest.mark.parametrize("name", WHOLE)
def test_the_kind_of_a_sample_is_guessed_from_its_content(name: str) -> None:
    assert guess((SAMPLES / name).read_bytes()) == OTHERWISE.get(name, KINDS[EXPECTED[name]["kind"]])


@pytest.mark.parametrize("name", sorted(NOBODYS))
def test_an_unknown_output_needs_an_explicit_kind(name: str) -> None:
    with pytest.raises(FormatError, match="no known tool") as caught:
        guess((SAMPLES / name).read_bytes())

    assert all(kind in caught.value.hint for kind in FORMATS)


@pytest.mark.parametrize("name", [name for name in WHOLE if EXPECTED[name]["outcome"] in ("values", "same_values")])
def test_a_sample_of_guessed_kind_becomes_json(name: str) -> None:
    kind, result = read((SAMPLES / name).read_bytes())

    assert FORMATS[kind].kind == kind
    assert json.loads(json.dumps(as_json(result), allow_nan=False))


def test_two_outputs_in_one_file_are_not_guessed() -> None:
    both = (SAMPLES / "pgbench-15-tpcb_r.out").read_bytes() + (SAMPLES / "sysbench-oltp_read_only.out").read_bytes()

    with pytest.raises(FormatError, match="the output may be pgbench or sysbench"):
        guess(both)


@pytest.mark.parametrize("raw", [b"", b" \r\n\t\n", b"\xef\xbb\xbf\n"])
def test_an_empty_output_is_called_empty(raw: bytes) -> None:
    with pytest.raises(FormatError, match="the file is empty"):
        guess(raw)


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(FormatError, match="this kind of output is unknown"):
        read(b"x", "tea leaves")


def test_json_omits_values_that_the_output_lacks() -> None:
    _, parsed = read((SAMPLES / "pgbench-9.5-select.out").read_bytes())

    output = as_json(parsed)

    assert output["tps_definition"] == "excluding connections establishing"
    assert "initial_connection_ms" not in output
    assert output["short_by"] == 0
