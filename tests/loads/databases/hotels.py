"""The database of a chain of hotels and its load."""

from __future__ import annotations

from tests.loads.databases import source

SECRETS = ("passport C01X00T47", "4111 1111 1111 1111")
SECRET_COLUMNS = ("hotels.guests.document", "hotels.payments.card")
TABLES = f"""
create schema hotels;
create table hotels.houses (id int primary key, city text not null, stars int not null, opened date not null);
insert into hotels.houses select i, 'city ' || (i * 7) % 31, 2 + i % 4, date '1990-01-01' + i * 40
  from generate_series(1, 120) i;
create table hotels.rooms (id int primary key, house_id int not null references hotels.houses, kind text not null,
  floor int not null, rate numeric(8,2) not null);
insert into hotels.rooms select i, 1 + (i - 1) / 50, (array['single','double','double','double','family','suite'])
  [1 + floor(6 * power(random(), 1.3))::int], 1 + i % 6, 60 + (random() * 200)::int from generate_series(1, 6000) i;
create index on hotels.rooms (house_id, kind);
create table hotels.guests (id bigserial primary key, name text not null, country char(2) not null, document text,
  email text not null unique, points int not null);
insert into hotels.guests (name, country, document, email, points) select 'guest ' || md5(i::text),
  (array['DE','FR','IT','ES','NL','US','CH'])[1 + floor(7 * power(random(), 2))::int], '{SECRETS[0]}',
  'guest' || i || '@example.org', floor(5000 * power(random(), 4)) from generate_series(1, 25000) i;
create table hotels.bookings (id bigserial primary key, guest_id bigint not null references hotels.guests,
  room_id int not null references hotels.rooms, arrival date not null, nights int not null, price numeric(9,2) not null,
  state text not null, booked_at timestamptz not null);
insert into hotels.bookings (guest_id, room_id, arrival, nights, price, state, booked_at)
  select 1 + floor(25000 * power(random(), 1.8)), 1 + floor(6000 * power(random(), 1.2)),
    date '2025-02-01' + i / 250 + (random() * 40)::int, 1 + floor(9 * power(random(), 2)), 80 + random() * 900,
    (array['paid','paid','paid','open','cancelled'])[1 + floor(5 * power(random(), 1.5))::int],
    timestamptz '2025-01-01' + i * interval '5 minutes' from generate_series(1, 90000) i;
create index bookings_of_guest on hotels.bookings (guest_id, arrival desc);
create index on hotels.bookings (room_id, arrival);
create index on hotels.bookings (booked_at);
create table hotels.payments (id bigserial primary key, booking_id bigint not null references hotels.bookings,
  amount numeric(9,2) not null, card text, paid_at timestamptz not null);
insert into hotels.payments (booking_id, amount, card, paid_at) select 1 + (i * 17) % 90000, 20 + random() * 700,
  '{SECRETS[1]}', timestamptz '2025-01-01' + i * interval '6 minutes' from generate_series(1, 75000) i;
create index on hotels.payments (booking_id);
create table hotels.reviews (id bigserial primary key, house_id int not null references hotels.houses,
  guest_id bigint not null references hotels.guests, score int not null, text text, written_at timestamptz not null);
insert into hotels.reviews (house_id, guest_id, score, text, written_at) select 1 + floor(120 * power(random(), 2)),
  1 + floor(25000 * random()), 1 + floor(5 * power(random(), 0.5)), case when random() < 0.6 then
  repeat('good ', 1 + (random() * 20)::int) end, timestamptz '2025-01-01' + i * interval '20 minutes'
  from generate_series(1, 30000) i;
create index on hotels.reviews (house_id, written_at desc);
create function hotels.greet(bigint) returns void language sql as 'select null::void';
"""
# Three lookups, four joins and lists, two sorts, two sums, three updates and three inserts.
LOAD = (
    (18, "\\set id random(1, 25000)\nselect name, country, points from hotels.guests where id = :id;"),
    (6, "\\set id random(1, 25000)\nselect id, name from hotels.guests where email = 'guest:id@example.org';"),
    (
        14,
        "\\set id random_zipfian(1, 25000, 1.05)\nselect b.id, b.arrival, b.nights, b.state, r.kind"
        " from hotels.bookings b join hotels.rooms r on r.id = b.room_id where b.guest_id = :id"
        " order by b.arrival desc limit 10;",
    ),
    (
        9,
        "\\set r random(1, 6000)\n\\set n random(0, 330)\nselect id, arrival, nights from hotels.bookings"
        " where room_id = :r and arrival between date '2025-02-01' + :n and date '2025-02-01' + :n + 60;",
    ),
    (
        5,
        "\\set h random_zipfian(1, 120, 1.1)\nselect g.name, w.score, w.text from hotels.reviews w"
        " join hotels.guests g on g.id = w.guest_id where w.house_id = :h order by w.written_at desc limit 20;",
    ),
    (
        3,
        "\\set n random(0, 300)\nselect id, guest_id, price from hotels.bookings where booked_at >="
        " timestamptz '2025-01-01' + :n * interval '1 day' and booked_at < timestamptz '2025-01-08'"
        " + :n * interval '1 day' order by price desc;",
    ),
    (
        4,
        "\\set h random(1, 120)\nselect kind, count(*), avg(rate) from hotels.rooms where house_id = :h group by kind;",
    ),
    (7, "\\set id random(1, 90000)\nselect sum(amount) from hotels.payments where booking_id = :id;"),
    (8, "\\set id random(1, 90000)\nupdate hotels.bookings set state = 'paid' where id = :id;"),
    (4, "\\set id random(1, 25000)\nupdate hotels.guests set points = points + 10 where id = :id;"),
    (2, "\\set id random(1, 6000)\nupdate hotels.rooms set rate = rate + 1 where id = :id;"),
    (
        9,
        "\\set g random_zipfian(1, 25000, 1.05)\n\\set r random(1, 6000)\ninsert into hotels.bookings (guest_id,"
        " room_id, arrival, nights, price, state, booked_at) values (:g, :r, current_date + 9, 2, 240, 'open', now());",
    ),
    (
        8,
        "\\set b random(1, 90000)\ninsert into hotels.payments (booking_id, amount, card, paid_at)"
        " values (:b, 120, '4111 1111 1111 1111', now());",
    ),
    (
        3,
        "\\set h random(1, 120)\n\\set g random(1, 25000)\ninsert into hotels.reviews (house_id, guest_id, score,"
        " written_at) values (:h, :g, 4, now());",
    ),
)
OTHERS = ("select hotels.greet(7);", "select pg_advisory_xact_lock(23);", "create temporary table lobby (id bigint);")
DATABASE = source("hotels", TABLES, LOAD, OTHERS, SECRETS, SECRET_COLUMNS, "hotels.bookings_of_guest")
