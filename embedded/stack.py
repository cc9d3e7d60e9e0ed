"""What runs together, and the environment that tells the server where."""

from __future__ import annotations

from pathlib import Path

from embedded import places
from embedded.postgres import Postgres
from embedded.supervisor import Supervisor
from embedded.valkey import Valkey


class Stack:
    """The services of one state directory. `durable=False` is for servers that live as long as one test run."""

    def __init__(self, supervisor: Supervisor, *, durable: bool = True) -> None:
        self.supervisor = supervisor
        self.state = supervisor.state
        self.secrets = places.load_secrets(self.state)
        self.postgres = Postgres(self.state, self.secrets["postgres_password"], durable=durable)
        self.valkey = Valkey(self.state, durable=durable)
        self.base_url = "http://127.0.0.1:8000"

    def environment(self) -> dict[str, str]:
        """All that apps/settings.py reads."""
        return {
            "DJANGO_SETTINGS_MODULE": "apps.settings",
            "PROVING_SECRET_KEY": self.secrets["secret_key"],
            "PROVING_DEBUG": "false",
            "PROVING_DATABASE_URL": self.postgres.url,
            "PROVING_BROKER_URL": self.valkey.broker_url,
            "PROVING_CACHE_URL": self.valkey.cache_url,
            "PROVING_ALLOWED_HOSTS": "127.0.0.1,localhost",
            "PROVING_BASE_URL": self.base_url,
            "PROVING_SSH_KEYS": self.secrets["ssh_key"],
            "PROVING_ADDRESS_ALLOW": "127.0.0.0/8",
            "PROVING_STATE_DIR": str(self.state),
        }

    def start_stores(self) -> None:
        """PostgreSQL with its database, and Valkey; creates both the first time."""
        self.postgres.prepare()
        self.valkey.prepare()
        self.supervisor.start(self.postgres.service, self.valkey.service)
        self.postgres.create_database()


def default_state() -> Path:
    """`var/` of the checkout."""
    return places.CHECKOUT / "var"
