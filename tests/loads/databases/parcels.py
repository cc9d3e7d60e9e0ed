"""The database of a parcel service and its load."""

from __future__ import annotations

from tests.loads.databases import source

SECRETS = ("DE89370400440532013000", "code 4711-blue")
SECRET_COLUMNS = ("parcels.customers.iban", "parcels.stops.door_code")
TABLES = f"""
create schema parcels;
create table parcels.depots (id int primary key, town text not null, region text not null, docks int not null);
insert into parcels.depots select i, 'town ' || i, (array['north','north','west','south','east'])[1 + i % 5], 4 + i % 9
  from generate_series(1, 80) i;
create table parcels.customers (id bigserial primary key, company text not null, contract text not null, iban text,
  since date not null);
insert into parcels.customers (company, contract, iban, since) select 'company ' || md5(i::text),
  (array['small','small','small','medium','large'])[1 + floor(5 * power(random(), 1.5))::int], '{SECRETS[0]}',
  date '2010-01-01' + (random() * 5000)::int from generate_series(1, 9000) i;
create table parcels.shipments (id bigserial primary key, customer_id bigint not null references parcels.customers,
  depot_id int not null references parcels.depots, created_at timestamptz not null, state text not null,
  weight_g int not null, note text);
insert into parcels.shipments (customer_id, depot_id, created_at, state, weight_g, note)
  select 1 + floor(9000 * power(random(), 2.5)), 1 + floor(80 * power(random(), 1.6)),
    timestamptz '2025-01-01' + i * interval '6 minutes', (array['delivered','delivered','delivered','lost','returned'])
    [1 + floor(5 * power(random(), 2))::int], 50 + floor(30000 * power(random(), 3)),
    case when random() < 0.25 then 'please ring twice ' || md5(i::text) end
  from generate_series(1, 80000) i;
create index shipments_of_customer on parcels.shipments (customer_id, created_at desc);
create index on parcels.shipments (created_at);
create table parcels.scans (id bigserial primary key, shipment_id bigint not null references parcels.shipments,
  depot_id int not null references parcels.depots, kind text not null, at timestamptz not null);
insert into parcels.scans (shipment_id, depot_id, kind, at) select 1 + i / 3, 1 + floor(80 * random()),
  (array['accepted','sorted','loaded','delivered'])[1 + i % 4], timestamptz '2025-01-01' + i * interval '2 minutes'
  from generate_series(1, 200000) i;
create index on parcels.scans (shipment_id, at);
create index on parcels.scans (depot_id);
create table parcels.tours (id bigserial primary key, depot_id int not null references parcels.depots,
  day date not null, driver text not null, planned int not null);
insert into parcels.tours (depot_id, day, driver, planned) select 1 + i % 80, date '2025-01-01' + i / 80,
  'driver ' || floor(400 * power(random(), 1.3)), 40 + (random() * 90)::int from generate_series(1, 24000) i;
create index on parcels.tours (depot_id, day);
create index on parcels.tours (day);
create table parcels.stops (tour_id bigint not null references parcels.tours, position int not null, door_code text,
  shipment_id bigint not null references parcels.shipments, primary key (tour_id, position));
insert into parcels.stops select t, p, '{SECRETS[1]}', 1 + (t * 31 + p * 7) % 80000 from generate_series(1, 15000) t,
  generate_series(1, 5) p;
create function parcels.bill(bigint) returns void language sql as 'select null::void';
"""
# Three lookups, three joins, two sorts, a sum, three updates and two inserts.
LOAD = (
    (22, "\\set id random(1, 80000)\nselect state, weight_g, created_at from parcels.shipments where id = :id;"),
    (
        16,
        "\\set id random(1, 66000)\nselect s.kind, s.at, d.town from parcels.scans s join parcels.depots d"
        " on d.id = s.depot_id where s.shipment_id = :id order by s.at;",
    ),
    (
        10,
        "\\set id random_zipfian(1, 9000, 1.05)\nselect id, created_at, state from parcels.shipments"
        " where customer_id = :id order by created_at desc limit 25;",
    ),
    (
        4,
        "\\set d random(1, 80)\n\\set n random(0, 290)\nselect t.id, t.driver, t.planned, count(*) from parcels.tours t"
        " join parcels.stops s on s.tour_id = t.id where t.depot_id = :d and t.day >= date '2025-01-01' + :n"
        " and t.day < date '2025-01-08' + :n group by t.id, t.driver, t.planned order by t.planned desc;",
    ),
    (
        3,
        "\\set n random(0, 300)\nselect id, customer_id, weight_g, created_at from parcels.shipments where created_at"
        " >= timestamptz '2025-01-01' + :n * interval '1 day' and created_at < timestamptz '2025-01-11'"
        " + :n * interval '1 day' order by weight_g desc;",
    ),
    (
        6,
        "\\set id random_zipfian(1, 9000, 1.1)\nselect sum(weight_g) from parcels.shipments where customer_id = :id"
        " and created_at >= timestamptz '2025-06-01';",
    ),
    (5, "\\set id random(1, 9000)\nselect company, contract from parcels.customers where id = :id;"),
    (8, "\\set id random(1, 80000)\nupdate parcels.shipments set state = 'delivered' where id = :id;"),
    (4, "\\set id random(1, 24000)\nupdate parcels.tours set planned = planned + 1 where id = :id;"),
    (2, "\\set id random(1, 9000)\nupdate parcels.customers set contract = 'medium' where id = :id;"),
    (
        13,
        "\\set s random(1, 80000)\n\\set d random(1, 80)\ninsert into parcels.scans (shipment_id, depot_id, kind, at)"
        " values (:s, :d, 'sorted', now());",
    ),
    (
        7,
        "\\set c random_zipfian(1, 9000, 1.05)\n\\set d random(1, 80)\ninsert into parcels.shipments (customer_id,"
        " depot_id, created_at, state, weight_g) values (:c, :d, now(), 'accepted', 700);",
    ),
)
OTHERS = ("select parcels.bill(7);", "select pg_advisory_xact_lock(11);", "create temporary table loading (id bigint);")
DATABASE = source("parcels", TABLES, LOAD, OTHERS, SECRETS, SECRET_COLUMNS, "parcels.shipments_of_customer")
