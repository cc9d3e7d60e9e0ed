"""A log of events of devices and its load: ranges of time, JSON, upserts. For development."""

from __future__ import annotations

from tests.loads.databases import source

SECRETS = ("0xdeadbeefcafe",)
SECRET_COLUMNS = ("public.devices.api_key",)
TABLES = f"""
create table devices (id int primary key, serial text not null unique, model text not null, site_id int not null,
  api_key text);
insert into devices select i, 'SN-' || lpad(i::text, 8, '0'), 'model ' || i % 12, 1 + floor(60 * power(random(), 2)),
  '{SECRETS[0]}' from generate_series(1, 3000) i;
create index on devices (site_id);
create table events (id bigserial primary key, device_id int not null references devices, at timestamptz not null,
  level smallint not null, kind text not null, payload jsonb not null);
insert into events (device_id, at, level, kind, payload)
  select 1 + floor(3000 * power(random(), 3)), now() - interval '60 days' + i * interval '26 seconds',
    (array[1,1,1,1,2,2,3])[1 + floor(random() * 7)::int], 'kind ' || floor(20 * power(random(), 2)),
    jsonb_build_object('temp', round((random() * 90)::numeric, 1), 'fw', '1.' || i % 9, 'note', md5(i::text))
  from generate_series(1, 200000) i;
create index on events (device_id, at desc);
create index on events using brin (at);
create index on events (at) where level = 3;
create table latest (device_id int primary key references devices, at timestamptz not null, state jsonb not null,
  changes int not null default 0);
insert into latest select i, now(), '{{"ok": true}}' from generate_series(1, 3000) i;
create table hourly (device_id int not null, hour timestamptz not null, events int not null, warnings int not null,
  primary key (device_id, hour));
insert into hourly select device_id, date_trunc('hour', at), count(*), count(*) filter (where level > 1)
  from events where device_id % 3 = 0 group by 1, 2;
create function rollup() returns void language sql as 'select null::void';
"""
LOAD = (
    (
        25,
        "\\set d random(1, 3000)\ninsert into events (device_id, at, level, kind, payload) values (:d, now(), 1,"
        " 'kind 1', '{\"temp\": 20.5}');",
    ),
    (
        20,
        "\\set d random(1, 3000)\ninsert into latest (device_id, at, state) values (:d, now(), '{\"ok\": true}')"
        " on conflict (device_id) do update set at = excluded.at, state = excluded.state,"
        " changes = latest.changes + 1;",
    ),
    (
        15,
        "\\set d random_zipfian(1, 3000, 1.1)\nselect id, at, level, payload->>'temp' from events"
        " where device_id = :d order by at desc limit 50;",
    ),
    (
        8,
        "\\set d random_zipfian(1, 3000, 1.2)\n\\set h random(24, 1400)\nselect count(*), max(level) from events"
        " where device_id = :d and at > now() - :h * interval '1 hour';",
    ),
    (
        3,
        "\\set h random(1, 1400)\nselect kind, count(*) from events where at between now() - :h * interval '1 hour'"
        " and now() - :h * interval '1 hour' + interval '2 hours' group by kind order by count(*) desc;",
    ),
    (
        6,
        "\\set s random(1, 60)\nselect d.serial, l.at, l.state from devices d join latest l on l.device_id = d.id"
        " where d.site_id = :s order by l.at;",
    ),
    (
        10,
        "\\set n random(1, 3000)\nselect id, model, site_id from devices where serial = 'SN-' ||"
        " lpad(:n::text, 8, '0');",
    ),
    (
        8,
        "\\set d random(1, 1000)\nselect hour, events, warnings from hourly where device_id = 3 * :d"
        " order by hour desc limit 48;",
    ),
    (
        3,
        "\\set d random(1, 1000)\ninsert into hourly values (3 * :d, date_trunc('hour', now()), 1, 0)"
        " on conflict (device_id, hour) do update set events = hourly.events + 1;",
    ),
)
OTHERS = ("select rollup();", "create temporary table x (i int);", "select pg_notify('e', 'x');")
DATABASE = source("events", TABLES, LOAD, OTHERS, SECRETS, SECRET_COLUMNS, "events_device_id_at_idx")
