"""The database of a network of charging stations and its load. It was written after the twin, and measured once."""

from __future__ import annotations

from tests.loads.databases import source

SECRETS = ("contract Q7-55-K2", "owner@stations.example")
SECRET_COLUMNS = ("charging.cards.contract", "charging.operators.contact")
TABLES = f"""
create schema charging;
create table charging.operators (id int primary key, name text not null, contact text not null);
insert into charging.operators select i, 'operator ' || i, '{SECRETS[1]}' from generate_series(1, 45) i;
create table charging.tariffs (id int primary key, operator_id int not null references charging.operators,
  cents_per_kwh numeric(6,2) not null, valid_from date not null);
insert into charging.tariffs select i, 1 + i % 45, 29 + (random() * 40)::int, date '2024-01-01' + i
  from generate_series(1, 400) i;
create table charging.stations (id int primary key, operator_id int not null references charging.operators,
  town text not null, latitude float8 not null, longitude float8 not null, opened date not null);
insert into charging.stations select i, 1 + floor(45 * power(random(), 2)),
  'town ' || floor(700 * power(random(), 1.5)), 47 + random() * 7, 6 + random() * 9, date '2018-01-01' + i / 2
  from generate_series(1, 4000) i;
create index on charging.stations (town);
create table charging.plugs (id int primary key, station_id int not null references charging.stations,
  kind text not null, kw int not null, busy boolean not null, changed_at timestamptz not null);
insert into charging.plugs select i, 1 + (i - 1) / 3, (array['type 2','type 2','ccs','chademo'])
  [1 + floor(4 * power(random(), 1.4))::int], (array[11,22,50,150,300])[1 + (random() * 4)::int], random() < 0.2,
  timestamptz '2025-03-01' + random() * interval '1 day' from generate_series(1, 12000) i;
create index on charging.plugs (station_id);
create table charging.cards (id bigserial primary key, holder text not null, contract text not null,
  number varchar(20) not null unique, blocked boolean not null, cents bigint not null);
insert into charging.cards (holder, contract, number, blocked, cents) select 'holder ' || md5(i::text), '{SECRETS[0]}',
  'DE1000' || (10000 + i), i % 97 = 0, (random() * 9000)::int from generate_series(1, 30000) i;
create table charging.sessions (id bigserial primary key, card_id bigint not null references charging.cards,
  plug_id int not null references charging.plugs, begun_at timestamptz not null, minutes int not null,
  kwh numeric(7,3) not null, state text not null, remark text);
insert into charging.sessions (card_id, plug_id, begun_at, minutes, kwh, state, remark)
  select 1 + floor(30000 * power(random(), 1.6)), 1 + floor(12000 * power(random(), 1.3)),
    timestamptz '2025-01-01' + i * interval '50 seconds', 5 + (200 * power(random(), 2))::int, 1 + random() * 80,
    (array['billed','billed','billed','open','disputed'])[1 + floor(5 * power(random(), 2))::int],
    case when random() < 0.1 then 'remark ' || md5(i::text) end from generate_series(1, 100000) i;
create index sessions_of_card on charging.sessions (card_id, begun_at desc);
create index on charging.sessions (plug_id);
create index on charging.sessions (begun_at);
create table charging.faults (id bigserial primary key, plug_id int not null references charging.plugs,
  code int not null, reported_at timestamptz not null, mended_at timestamptz);
insert into charging.faults (plug_id, code, reported_at, mended_at) select 1 + floor(12000 * power(random(), 3)),
  100 + floor(40 * power(random(), 2)), timestamptz '2025-01-01' + i * interval '4 minutes',
  case when random() < 0.8 then timestamptz '2025-01-02' + i * interval '4 minutes' end
  from generate_series(1, 20000) i;
create index on charging.faults (plug_id, reported_at desc);
create function charging.ring(bigint) returns void language sql as 'select null::void';
"""
# Three lookups, two joins, a large sort, three aggregates, a list, four updates and two inserts.
LOAD = (
    (
        16,
        "\\set n random(10001, 40000)\nselect id, blocked, cents from charging.cards where number = 'DE1000:n';",
    ),
    (10, "\\set id random(1, 30000)\nselect holder, cents from charging.cards where id = :id;"),
    (9, "\\set id random(1, 4000)\nselect town, latitude, longitude from charging.stations where id = :id;"),
    (
        12,
        "\\set id random_zipfian(1, 30000, 1.05)\nselect s.id, s.begun_at, s.kwh, p.kind from charging.sessions s"
        " join charging.plugs p on p.id = s.plug_id where s.card_id = :id order by s.begun_at desc limit 12;",
    ),
    (
        6,
        "\\set t random_zipfian(1, 700, 1.1)\nselect t.id, p.id, p.kw from charging.stations t join charging.plugs p"
        " on p.station_id = t.id where t.town = 'town :t' and not p.busy order by p.kw desc limit 30;",
    ),
    (
        1,
        "\\set n random(0, 40)\nselect id, kwh from charging.sessions where begun_at >= timestamptz '2025-01-01'"
        " + :n * interval '1 day' and begun_at < timestamptz '2025-01-13' + :n * interval '1 day'"
        " order by kwh desc, id;",
    ),
    (6, "\\set id random(1, 12000)\nselect count(*), sum(kwh) from charging.sessions where plug_id = :id;"),
    (3, "\\set id random(1, 12000)\nselect code, reported_at from charging.faults where plug_id = :id limit 5;"),
    (3, "\\set o random(1, 45)\nselect max(cents_per_kwh) from charging.tariffs where operator_id = :o;"),
    (9, "\\set id random(1, 12000)\nupdate charging.plugs set busy = not busy, changed_at = now() where id = :id;"),
    (7, "\\set id random(1, 100000)\nupdate charging.sessions set state = 'billed' where id = :id;"),
    (5, "\\set id random(1, 30000)\nupdate charging.cards set cents = cents - 7 where id = :id;"),
    (
        9,
        "\\set c random_zipfian(1, 30000, 1.05)\n\\set p random(1, 12000)\ninsert into charging.sessions (card_id,"
        " plug_id, begun_at, minutes, kwh, state) values (:c, :p, now(), 30, 21.5, 'open');",
    ),
    (
        2,
        "\\set p random_zipfian(1, 12000, 1.1)\ninsert into charging.faults (plug_id, code, reported_at)"
        " values (:p, 117, now());",
    ),
    (2, "\\set id random(1, 4000)\nupdate charging.stations set opened = opened + 1 where id = :id;"),
)
OTHERS = ("select charging.ring(7);", "select pg_advisory_xact_lock(5);", "create temporary table queue (id bigint);")
DATABASE = source("stations", TABLES, LOAD, OTHERS, SECRETS, SECRET_COLUMNS, "charging.sessions_of_card")
