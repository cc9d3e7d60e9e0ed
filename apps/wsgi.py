"""The web server's entry: gunicorn's threads suit pages that wait for PostgreSQL, and need no event loop."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
application = get_wsgi_application()
