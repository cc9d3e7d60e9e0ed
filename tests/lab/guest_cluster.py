"""Debian's PostgreSQL on a machine of the lab, prepared by its admin for campaigns."""

from __future__ import annotations

from tests.lab.machines.machine import Machine

INCLUDE = "include_if_exists 'proving_ground.conf'"
LOAD = "local proving_ground proving-load scram-sha-256"
CONF = "/etc/postgresql/15/main/postgresql.conf"
HBA = "/etc/postgresql/15/main/pg_hba.conf"


def prepare(vm: Machine) -> None:
    """Include the file with the settings of a run, and let the load log in. Both last over a power cut."""
    vm.shell(f'sudo grep -qF "{INCLUDE}" {CONF} || echo "{INCLUDE}" | sudo tee -a {CONF}')
    vm.shell(f'sudo grep -qF "{LOAD}" {HBA} || sudo sed -i "1i {LOAD}" {HBA}')
    vm.shell("sudo sync")
