"""python -m tests.truth.sentences: render random campaigns on all CPUs, and print errors and contradictions."""

from __future__ import annotations

import argparse
import base64
import multiprocessing
import os
import secrets
import sys
import time
from collections import Counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
os.environ.setdefault("PROVING_SECRET_KEY", secrets.token_hex(32))
for service, url in (("DATABASE", "postgres://nobody@127.0.0.1/none"), ("CACHE", "redis://127.0.0.1/0")):
    os.environ.setdefault(f"PROVING_{service}_URL", url)  # neither is opened
os.environ.setdefault("PROVING_BROKER_URL", os.environ["PROVING_CACHE_URL"])
os.environ.setdefault("PROVING_SSH_KEYS", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())

EXAMPLES = 3


def check(number: int) -> tuple[int, list[str]]:
    from tests.truth.sentences.rendering import wrong

    return number, wrong(number)


def prepare() -> None:
    import django

    django.setup()


def main(arguments: list[str]) -> int:
    """Returns 1 if there is an error or a contradiction."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.sentences", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="number of the first campaign (0)")
    parser.add_argument("--campaigns", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one for each CPU")
    options = parser.parse_args(arguments)
    prepare()
    numbers = range(options.first, options.first + options.campaigns)
    if options.campaigns == 1:
        from tests.truth.sentences.rendering import sentences

        print("\n".join(sentences(options.first)))
    begun, kinds = time.monotonic(), Counter[str]()
    with multiprocessing.Pool(options.processes, prepare) as pool:
        for done, (number, wrongs) in enumerate(pool.imap_unordered(check, numbers, chunksize=50), 1):
            for each in wrongs:
                kind = each.partition(":")[0]
                kinds[kind] += 1
                if kinds[kind] <= EXAMPLES:
                    print(f"campaign {number}: {each}", flush=True)
            if done % 1_000 == 0:
                print(
                    f"{done} of {len(numbers)}, {sum(kinds.values())} wrong, {time.monotonic() - begun:.0f} s",
                    flush=True,
                )
    print(f"{len(numbers)} random campaigns from {options.first} on: {sum(kinds.values())} errors and contradictions")
    for kind, count in kinds.most_common():
        print(f"  {count:6} {kind}")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
