"""docs/reference/cli.md agrees with the options and the recorded session of the program."""

from __future__ import annotations

import re

import pytest

from tests.cli import reference, session


@pytest.fixture
def document() -> str:
    return reference.DOCUMENT.read_text()


def test_the_reference_is_the_one_that_the_program_makes(document: str) -> None:
    assert document == reference.render(document), "run: python -m tests.cli.reference"


def test_the_session_has_the_commands_that_a_test_carries_out(document: str) -> None:
    recorded = re.findall(r"^    \$ (.*)$", reference.part_of(document, "session"), re.MULTILINE)

    expected = [command.split("{url}")[0] for command, _ in session.SESSION]
    assert [re.sub(r"http\S+", "", each) for each in recorded if each != "echo $?"] == expected, (
        "run: python -m tests.cli.session"
    )


def test_every_recorded_exit_code_is_the_expected_one(document: str) -> None:
    codes = re.findall(r"^    \$ echo \$\?\n    (\d+)$", reference.part_of(document, "session"), re.MULTILINE)

    assert codes == [str(code) for _, code in session.SESSION if code]
