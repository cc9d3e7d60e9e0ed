"""Boot loaders that can start an entry of the agent once, by the value of boot_with."""

from __future__ import annotations

from .base import Loader
from .grub import Grub
from .systemd_boot import SystemdBoot

LOADERS: dict[str, Loader] = {each.way: each for each in (Grub(), SystemdBoot())}
