"""The reduced plotly.min.js: smaller, complete for what charts draw, and refused if the bundle is built otherwise."""

from __future__ import annotations

import re

import pytest

from apps.results.pages import plotly_bundle
from apps.results.pages.assets import SOURCE, TRACES, plotly_script
from common.errors import FormatError


def test_the_script_has_the_modules_of_the_traces_that_are_drawn_and_no_others() -> None:
    drawn = re.findall(r'moduleType:"trace",name:"(\w+)"', plotly_script())

    assert sorted(drawn) == sorted(TRACES)
    assert len(plotly_script()) < SOURCE.stat().st_size / 4


def test_a_type_of_trace_that_plotly_does_not_have_is_refused() -> None:
    with pytest.raises(FormatError, match="no module draws waterfalls"):
        plotly_bundle.reduce_bundle(SOURCE.read_text(), ("scatter", "waterfalls"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            r"var (\w+)=\(\w,\w\)=>\(\)=>\{try",
            r"var \1=(e,t)=>()=>{if(1)try",
            "expected one helper of esbuild, found 0",
        ),
        (r"return (\w+)\(\);\}\)\(\);", r"return \1()})();", "expected one call of the last module, found 0"),
        (r"\.register\(\[(\w+\(\)),", r".register([0,\1,", "expected one list of registered traces, found 0"),
    ],
)
def test_a_bundle_of_another_structure_is_refused(before: str, after: str, message: str) -> None:
    source = SOURCE.read_text()
    changed = re.sub(before, after, source)
    assert changed != source

    with pytest.raises(FormatError, match=message):
        plotly_bundle.reduce_bundle(changed, TRACES)
