"""manage.py sign_agent: sign the agent of this server for hosts with the launcher, and manage the signing keys."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents import build
from apps.hosts.access import signing, ssh
from common.errors import ProvingError


class Command(BaseCommand):
    help = "Sign the agent of this server, and print the keys that hosts with the launcher must trust."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--signers", action="store_true", help="print only the file /etc/proving-agent/signers")
        what.add_argument("--launcher", action="store_true", help="print the file /usr/local/sbin/proving-agent")
        what.add_argument("--next", action="store_true", help="create the next key; it signs nothing yet")
        what.add_argument("--use-next", action="store_true", help="sign with the next key from now on")

    def handle(self, *, signers: bool, launcher: bool, next: bool, use_next: bool, **_: Any) -> None:
        try:
            if next:
                signing.prepare_next_key()
            if use_next:
                signing.use_next_key()
            if launcher:
                self.stdout.write(build.launcher_source(), ending="")
            elif signers or next:
                self.stdout.write(signing.signers(), ending="")
            else:
                self._sign()
        except ProvingError as error:
            raise CommandError(str(error)) from error

    def _sign(self) -> None:
        digest, _ = ssh.agent_zipapp()
        self.stdout.write(f"agent {digest} is signed with serial {signing.newest_signature(digest).serial}")
        self.stdout.write("/etc/proving-agent/signers of each host with the launcher:")
        self.stdout.write(signing.signers(), ending="")
