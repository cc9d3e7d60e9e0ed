"""The WSGI application for gunicorn, whose threads suit pages that wait for PostgreSQL."""

import gc
import os
import signal
import threading
from types import FrameType

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
os.environ.setdefault("PROVING_DATABASE_POOL", "10")

from apps.infrastructure.call_stack import roomy
from apps.preload import load_pages

application = roomy(get_wsgi_application())

# What is loaded stays. Without freezing it, garbage collection would look through it again and stop all threads for
# more than 100 ms. What is loaded later is not frozen, so everything is loaded now.
load_pages()
gc.collect()
gc.freeze()


def _streams_end_at(sig: signal.Signals) -> None:
    """End live streams before gunicorn's handler of the signal runs, because an orderly stop would wait for them."""
    from apps.results.pages.live_views import hub

    theirs = signal.getsignal(sig)
    if not callable(theirs):
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        hub.stop()
        theirs(signum, frame)

    signal.signal(sig, stop)


if threading.current_thread() is threading.main_thread():
    _streams_end_at(signal.SIGTERM)
    _streams_end_at(signal.SIGQUIT)
