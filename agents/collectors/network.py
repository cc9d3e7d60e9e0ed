"""Traffic of network interfaces, from /proc/net/dev, and TCP retransmissions, from /proc/net/snmp."""

from __future__ import annotations

from ..wire.columns import columns
from .base import Collector, Rates

# bytes, packets, errs, drop: the first columns of each direction
_FIELDS = {"rx_bytes": 0, "rx_errs": 2, "rx_drop": 3, "tx_bytes": 8, "tx_errs": 10, "tx_drop": 11}
LOOPBACK = "lo"


class Network(Collector):
    name = "network"
    help = "Throughput and drops of each interface, retransmitted TCP segments"
    columns = {
        **columns("network", "MB/s", {"rx_mb_s": "received, without loopback", "tx_mb_s": "sent, likewise"}),
        **columns("network per interface", "MB/s", {"<interface>.rx_mb_s": "received", "<interface>.tx_mb_s": "sent"}),
        **columns(
            "network losses",
            "1/s",
            {
                "RetransSegs": "TCP segments sent again",
                "<interface>.rx_drop": "packets received and dropped",
                "<interface>.tx_drop": "packets dropped before sending",
                "<interface>.rx_errs": "packets received damaged",
                "<interface>.tx_errs": "packets that could not be sent",
            },
            better="lower",
        ),
    }

    def start(self) -> None:
        self._dev, self._snmp = self.system.reader("/proc/net/dev"), self.system.reader("/proc/net/snmp")
        self._rates = Rates()
        self._rates.of(self._counts(), self.system.mono())

    def sample(self) -> dict[str, float]:
        rates = self._rates.of(self._counts(), self.system.mono())
        values = {"rx_mb_s": 0.0, "tx_mb_s": 0.0}
        for name, rate in rates.items():
            interface, _, what = name.rpartition(".")
            if not what.endswith("_bytes"):
                values[name] = rate
                continue
            column = what.replace("_bytes", "_mb_s")
            values[f"{interface}.{column}"] = round(rate / 1e6, 6)
            values[column] += 0.0 if interface == LOOPBACK else round(rate / 1e6, 6)
        return values

    def _counts(self) -> dict[str, float]:
        again = retransmitted(self._snmp.text())
        return {**parse(self._dev.text()), **({} if again is None else {"RetransSegs": float(again)})}


def parse(text: str) -> dict[str, float]:
    """{"eth0.rx_bytes": n, ...} of the interfaces that ever carried anything."""
    counts: dict[str, float] = {}
    for line in text.splitlines()[2:]:
        interface, _, rest = line.partition(":")
        numbers = [int(field) for field in rest.split()]
        if numbers[0] or numbers[8]:
            counts.update({f"{interface.strip()}.{name}": float(numbers[at]) for name, at in _FIELDS.items()})
    return counts


def retransmitted(text: str) -> int | None:
    """RetransSegs of /proc/net/snmp, where a line of names stands above one of numbers."""
    names, numbers = ([line.split() for line in text.splitlines() if line.startswith("Tcp:")] + [[], []])[:2]
    return int(dict(zip(names, numbers)).get("RetransSegs", -1)) if "RetransSegs" in names else None
