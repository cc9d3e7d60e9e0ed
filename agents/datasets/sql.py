"""Data made by SQL: named steps, each one transaction."""

from __future__ import annotations

import re

from ..errors import Unplannable
from ..sql import hostaccess
from ..sql.text import bare, statements
from .base import Data, Options, Step

_TRANSACTION = re.compile(r"\s*(begin|start|commit|end|rollback|abort|prepare\s+transaction)\b", re.IGNORECASE)
# An argument of a program may have 128 kB, and a character four bytes.
LONGEST = 30000


class SqlData(Data):
    kind = "sql"
    title = "SQL"
    help = "Your own tables: named steps of SQL, executed in order"
    schema = {
        "type": "object",
        "title": "SQL",
        "properties": {
            "steps": {
                "type": "array",
                "title": "Steps",
                "description": 'such as [{"name": "create", "sql": "create table t (i int)"}]. Each step is one '
                'transaction. VACUUM needs "transaction": false; if such a step is interrupted, the data are '
                "created again",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {
                            "type": "string",
                            "pattern": r"^[a-z0-9][a-z0-9_-]{0,39}$",
                            "description": "a-z, 0-9, _ and -",
                        },
                        "sql": {"type": "string", "maxLength": LONGEST},
                        "transaction": {"type": "boolean"},
                    },
                    "required": ["name", "sql"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["steps"],
        "additionalProperties": False,
    }

    def check(self, options: Options) -> None:
        names = [step["name"] for step in options["steps"]]
        if not names:
            raise Unplannable("dataset.steps", names, "one or more steps")
        for place, step in enumerate(options["steps"]):
            field, text = f"dataset.steps[{place}]", step["sql"].strip()
            if names.count(step["name"]) > 1:
                raise Unplannable(f"{field}.name", step["name"], "a distinct name for each step")
            if not text or text.startswith("\\"):
                raise Unplannable(f"{field}.sql", text[:40], "SQL, without commands of psql")
            hostaccess.check(f"{field}.sql", text)
            for match in filter(None, (_TRANSACTION.match(bare(each)) for each in statements(text))):
                accepted = "a step without it: each step is one transaction"
                raise Unplannable(f"{field}.sql", match.group(1), accepted)

    def code(self, options: Options) -> dict[str, str]:
        return {f"steps.{step['name']}.sql": step["sql"] for step in options["steps"]}

    def steps(self, options: Options, major: int) -> list[Step]:
        share = 1.0 / len(options["steps"])
        return [
            Step(
                step["name"],
                step["name"],
                share,
                sql=step["sql"].strip().rstrip(";"),
                data=True,
                atomic=step.get("transaction", True),
            )
            for step in options["steps"]
        ]
