"""Static files: compressed, cached under names with their hash, and plain if they were not collected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.http import HttpResponse
from django.test import RequestFactory
from whitenoise.middleware import WhiteNoiseMiddleware

from apps.configuration.static_storage import StaticStorage


def test_collected_files_are_compressed_and_cached_for_a_year(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)
    settings.STATICFILES_FINDERS = ["apps.results.pages.assets.PlotlyFinder"]
    call_command("collectstatic", "--noinput", verbosity=0)
    name = StaticStorage().stored_name("plotly.min.js")
    request = RequestFactory().get(f"/static/{name}", headers={"Accept-Encoding": "gzip"})

    answer = WhiteNoiseMiddleware(lambda _: HttpResponse(status=404))(request)

    assert re.fullmatch(r"plotly\.min\.[0-9a-f]{12}\.js", name)
    assert answer.headers["Content-Encoding"] == "gzip" and int(answer.headers["Content-Length"]) < 400_000
    assert answer.headers["Cache-Control"] == "max-age=315360000, public, immutable"


def test_files_that_were_not_collected_have_their_plain_names() -> None:
    assert staticfiles_storage.url("app.css") == "/static/app.css"
