"""What fio's JSON says in cases of which there is no sample."""

from __future__ import annotations

import pytest

from common.errors import FormatError
from readers.fio.report import parse_fio
from tests.contract.test_formats import SAMPLES


@pytest.mark.parametrize("figure", [b"nan", b"Infinity", b"1e999", b"-1", b"9" * 5000, b"true", b'"7"', b"null"])
def test_an_invalid_figure_is_refused(figure: bytes) -> None:
    raw = (SAMPLES / "fio-3.33-read_nogroup.json").read_bytes()
    spoilt = raw.replace(b'"iops" : 23954.045954', b'"iops" : ' + figure)

    with pytest.raises(FormatError):
        parse_fio(spoilt)


def test_the_last_document_of_a_status_interval_counts() -> None:
    first = (SAMPLES / "fio-3.1-document_job.json").read_bytes()
    last = (SAMPLES / "fio-3.33-read_nogroup.json").read_bytes()

    report = parse_fio(first + b"\n" + last)

    assert (report.documents, report.version) == (2, "3.33")


def test_a_status_interval_whose_last_document_is_cut_is_refused() -> None:
    raw = (SAMPLES / "fio-3.33-read_nogroup.json").read_bytes()

    with pytest.raises(FormatError, match="cut or damaged"):
        parse_fio(raw + b"\n" + raw[:3000])
