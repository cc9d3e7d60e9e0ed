"""How fast cpus run and how warm they are, from cpufreq and thermal zones of /sys; virtual machines have neither."""

from __future__ import annotations

from ..wire.columns import columns
from .base import Collector, NotAvailable

CPUS, ZONES = "/sys/devices/system/cpu", "/sys/class/thermal"


class Frequency(Collector):
    name = "frequency"
    help = "Clock of each CPU and temperature of each thermal zone, if the machine reports them"
    columns = {
        **columns(
            "frequency", "MHz", {"min": "slowest cpu", "mean": "mean of all CPUs", "max": "fastest cpu"}, gauge=True
        ),
        **columns("frequency per cpu", "MHz", {"<cpu>.mhz": "clock of one CPU"}, gauge=True),
        **columns(
            "temperature",
            "°C",
            {"<zone>.celsius": "of a thermal zone, by its type and number"},
            gauge=True,
            better="lower",
        ),
    }

    def start(self) -> None:
        system = self.system
        clocks = {name: f"{CPUS}/{name}/cpufreq/scaling_cur_freq" for name in system.names(CPUS)}
        self._clocks = {name: path for name, path in clocks.items() if system.exists(path)}
        zones = {name: f"{ZONES}/{name}" for name in system.names(ZONES) if name.startswith("thermal_zone")}
        self._zones = {
            f"{system.text(f'{path}/type')}-{name[len('thermal_zone') :]}": f"{path}/temp"
            for name, path in zones.items()
            if system.text(f"{path}/temp")
        }
        if not self._clocks and not self._zones:
            raise NotAvailable(
                "this machine reports neither frequencies nor temperatures, as is usual for virtual machines"
            )

    def sample(self) -> dict[str, float]:
        clocks = {name: self._number(path) / 1000 for name, path in self._clocks.items()}
        warmth = {f"{zone}.celsius": self._number(path) / 1000 for zone, path in self._zones.items()}
        running = [mhz for mhz in clocks.values() if mhz]
        if not running:
            return warmth
        spread = {"min": min(running), "mean": round(sum(running) / len(running), 1), "max": max(running)}
        return {**spread, **{f"{name}.mhz": mhz for name, mhz in clocks.items() if mhz}, **warmth}

    def _number(self, path: str) -> float:
        """0 while a cpu is offline or a sensor asleep."""
        text = self.system.text(path)
        return float(text) if text.lstrip("-").isdigit() else 0.0
