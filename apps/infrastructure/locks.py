"""Locks for migrations that change tables while servers use them."""

from __future__ import annotations

ATTEMPTS = 120  # a minute
IN_USE = "end long transactions, which pg_stat_activity lists, and migrate again"


def exclusive(*tables: str) -> str:
    """Return SQL that locks these tables against all others until the end of the transaction.

    Either it gets all of the locks at once, or it lets go of those it has and tries again: no order of locks would be
    that of all statements of a server, and two that wait for each other are a deadlock. Others wait for an attempt for
    0.2 s per table at most."""
    listed = ", ".join(tables)
    return f"""
DO $$
BEGIN
    FOR attempt IN 1..{ATTEMPTS} LOOP
        BEGIN
            SET LOCAL lock_timeout = '200ms';
            LOCK TABLE {listed} IN ACCESS EXCLUSIVE MODE;
            SET LOCAL lock_timeout = DEFAULT;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    RAISE EXCEPTION 'the tables {listed} were in use for a minute: {IN_USE}';
END
$$;
"""
