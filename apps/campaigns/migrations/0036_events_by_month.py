import django.db.models.deletion
from django.db import migrations, models

from apps.infrastructure.locks import exclusive

# The server's role calls them with the owner's rights: see apps/infrastructure/months.py.
FUNCTIONS = """
CREATE FUNCTION proving_partition(parent text, month date) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF parent <> ALL (ARRAY['campaigns_runevent']) OR month <> date_trunc('month', month) THEN
        RAISE EXCEPTION 'no partition of % can begin on %', parent, month;
    END IF;
    RETURN parent || to_char(month, '_YYYY_MM');
END
$$;
CREATE FUNCTION proving_add_month(parent text, month date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    name text := proving_partition(parent, month);
    has_rows boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE month >= $1 AND month < $1 + interval ''1 month'')', parent || '_other')
    INTO has_rows USING month;
    IF has_rows OR to_regclass(format('public.%I', name)) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name, parent);
    EXECUTE format(
        'ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
        parent, name, month, (month + interval '1 month')::date
    );
    RETURN true;
END
$$;
CREATE FUNCTION proving_drop_month(parent text, month date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF month >= date_trunc('month', now() AT TIME ZONE 'UTC') THEN
        RAISE EXCEPTION 'the month % has not ended', month;
    END IF;
    SET CONSTRAINTS ALL IMMEDIATE; -- a table whose rows were just moved has checks that wait for the commit
    EXECUTE format('DROP TABLE IF EXISTS public.%I', proving_partition(parent, month));
    RETURN true;
END
$$;
CREATE FUNCTION proving_analyze(parent text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM proving_partition(parent, '2000-01-01');
    EXECUTE format('ANALYZE public.%I', parent);
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION
    proving_add_month(text, date), proving_drop_month(text, date), proving_analyze(text) FROM PUBLIC;
"""
NO_FUNCTIONS = """
DROP FUNCTION proving_analyze(text);
DROP FUNCTION proving_drop_month(text, date);
DROP FUNCTION proving_add_month(text, date);
DROP FUNCTION proving_partition(text, date);
"""
# Through which release 0.2.0 reads and writes events of parts. A view stays with its table, whatever the table's name.
NO_VIEW = "DROP VIEW campaigns_partevent"
VIEW = """
CREATE VIEW campaigns_partevent AS
SELECT id, part_id, seq, at, kind, data FROM campaigns_runevent WHERE part_id IS NOT NULL;
"""
# References to runs have triggers there, which the new table replaces.
LOCKS = exclusive("campaigns_run", "campaigns_runpart", "campaigns_runevent", "campaigns_partevent")
# The old table becomes the partition `kept`. Identity columns and partitions go together from PostgreSQL 17 on only, so
# a sequence gives the ids. Nothing refers to an id and no query selects by it, so no index has them. The index of runs
# alone repeated that of runs and numbers.
SPLIT = """
ALTER TABLE campaigns_runevent RENAME TO campaigns_runevent_kept;
DO $$
DECLARE following bigint;
BEGIN
    EXECUTE 'SELECT last_value + 1 FROM ' || pg_get_serial_sequence('campaigns_runevent_kept', 'id') INTO following;
    ALTER TABLE campaigns_runevent_kept ALTER COLUMN id DROP IDENTITY;
    EXECUTE format('CREATE SEQUENCE campaigns_runevent_id_seq START WITH %s', following);
END
$$;
ALTER TABLE campaigns_runevent_kept
    ALTER COLUMN id SET DEFAULT nextval('campaigns_runevent_id_seq'),
    DROP CONSTRAINT campaigns_runevent_pkey,
    DROP CONSTRAINT event_once;
DROP INDEX event_once_per_part, campaigns_runevent_run_id_36d293ed;
CREATE TABLE campaigns_runevent (LIKE campaigns_runevent_kept INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
PARTITION BY RANGE (month);
ALTER SEQUENCE campaigns_runevent_id_seq OWNED BY campaigns_runevent.id;
ALTER TABLE campaigns_runevent DROP CONSTRAINT event_is_kept;
-- As the old table has them. PostgreSQL finds that a partition has the same ones, and reads no row of it.
ALTER TABLE campaigns_runevent
    ADD CONSTRAINT event_of_run FOREIGN KEY (run_id) REFERENCES campaigns_run DEFERRABLE INITIALLY DEFERRED,
    ADD CONSTRAINT event_of_part FOREIGN KEY (part_id) REFERENCES campaigns_runpart DEFERRABLE INITIALLY DEFERRED,
    ADD CONSTRAINT event_once UNIQUE (run_id, seq, month);
CREATE UNIQUE INDEX event_once_per_part ON campaigns_runevent (part_id, seq, month) WHERE part_id IS NOT NULL;
ALTER TABLE campaigns_runevent_kept ADD CONSTRAINT event_kept_once UNIQUE USING INDEX event_kept_once;
ALTER TABLE campaigns_runevent ATTACH PARTITION campaigns_runevent_kept FOR VALUES FROM (MINVALUE) TO ('2000-02-01');
ALTER TABLE campaigns_runevent_kept DROP CONSTRAINT event_is_kept;
CREATE TABLE campaigns_runevent_other PARTITION OF campaigns_runevent DEFAULT;
SELECT proving_add_month('campaigns_runevent', (date_trunc('month', now() AT TIME ZONE 'UTC') + ahead * interval '1 month')::date)
FROM generate_series(0, 2) AS ahead;
"""
# The server's role, if it is another one than the owner, gets its rights from `runtime_role`, which runs only after all
# migrations. The last release needs those on the new table before that.
RIGHTS = """
DO $$
DECLARE server text;
BEGIN
    FOR server IN
        SELECT grantee FROM information_schema.role_table_grants
        WHERE table_schema = current_schema AND table_name = 'campaigns_runevent_kept'
        AND privilege_type = 'INSERT' AND grantee <> current_user
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON campaigns_runevent, campaigns_partevent TO %I', server);
        EXECUTE format('GRANT USAGE, SELECT ON SEQUENCE campaigns_runevent_id_seq TO %I', server);
    END LOOP;
END
$$
"""
ONE_TABLE = """
ALTER TABLE campaigns_runevent DETACH PARTITION campaigns_runevent_kept;
ALTER TABLE campaigns_runevent_kept
    DROP CONSTRAINT event_kept_once,
    ADD CONSTRAINT event_is_kept CHECK (month = '2000-01-01');
DROP INDEX event_kept_once_per_part;
INSERT INTO campaigns_runevent_kept (id, run_id, part_id, seq, at, kind, data)
SELECT id, run_id, part_id, seq, at, kind, data FROM campaigns_runevent;
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE campaigns_runevent_kept ALTER COLUMN id DROP DEFAULT;
DROP TABLE campaigns_runevent;
ALTER TABLE campaigns_runevent_kept RENAME TO campaigns_runevent;
ALTER TABLE campaigns_runevent ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
SELECT setval(pg_get_serial_sequence('campaigns_runevent', 'id'), coalesce(max(id), 0) + 1) FROM campaigns_runevent;
ALTER TABLE campaigns_runevent
    ADD CONSTRAINT campaigns_runevent_pkey PRIMARY KEY (id),
    ADD CONSTRAINT event_once UNIQUE (run_id, seq);
CREATE UNIQUE INDEX event_once_per_part ON campaigns_runevent (part_id, seq) WHERE part_id IS NOT NULL;
CREATE INDEX campaigns_runevent_run_id_36d293ed ON campaigns_runevent (run_id);
CREATE UNIQUE INDEX event_kept_once ON campaigns_runevent (run_id, seq, month);
CREATE UNIQUE INDEX event_kept_once_per_part ON campaigns_runevent (part_id, seq, month) WHERE part_id IS NOT NULL;
"""
RUN = {
    "null": True,
    "on_delete": django.db.models.deletion.CASCADE,
    "related_name": "events",
    "db_index": False,
    "to": "campaigns.run",
}
OF_PART = models.Q(("part__isnull", False))


class Migration(migrations.Migration):
    """One transaction that changes the catalogue only, however many events there are."""

    dependencies = [
        ("campaigns", "0035_events_once_per_month"),
    ]

    operations = [
        migrations.RunSQL(LOCKS, migrations.RunSQL.noop),
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
        migrations.RunSQL(NO_VIEW, VIEW),
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(SPLIT, ONE_TABLE)],
            [
                migrations.AlterField("runevent", "run", models.ForeignKey(**RUN)),
                migrations.RemoveConstraint("runevent", "event_once"),
                migrations.RemoveConstraint("runevent", "event_once_per_part"),
                migrations.AddConstraint(
                    "runevent", models.UniqueConstraint(fields=["run", "seq", "month"], name="event_once")
                ),
                migrations.AddConstraint(
                    "runevent",
                    models.UniqueConstraint(
                        fields=["part", "seq", "month"], condition=OF_PART, name="event_once_per_part"
                    ),
                ),
            ],
        ),
        migrations.RunSQL(VIEW, NO_VIEW),
        migrations.RunSQL(RIGHTS, migrations.RunSQL.noop),
    ]
