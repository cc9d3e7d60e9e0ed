"""The database of a market place and its load: searches, carts, orders, reviews. For development."""

from __future__ import annotations

from tests.loads.databases import source

SECRETS = ("$2b$12$KIXsecret", "4111111111111111")
SECRET_COLUMNS = ("public.users.password_hash", "public.users.card")
TABLES = f"""
create table users (id bigserial primary key, email text unique not null, password_hash text not null, card text,
  city text, created_at timestamp not null default now());
insert into users (email, password_hash, card, city, created_at) select 'u' || i || '@mail.example',
  '{SECRETS[0]}', '{SECRETS[1]}', 'city ' || floor(200 * power(random(), 3)),
  timestamp '2023-01-01' + i * interval '1 hour'
  from generate_series(1, 15000) i;
create table categories (id serial primary key, parent_id int references categories, name text not null);
insert into categories (parent_id, name) select case when i > 10 then 1 + i % 10 end, 'c' || i
  from generate_series(1, 80) i;
create table items (id bigserial primary key, seller_id bigint not null references users, category_id int not null
  references categories, title text not null, description text, price numeric(10,2) not null, stock int not null,
  listed_at timestamp not null);
insert into items (seller_id, category_id, title, description, price, stock, listed_at)
  select 1 + floor(15000 * power(random(), 6)), 1 + floor(80 * power(random(), 1.6)), 'item ' || md5(i::text),
    repeat(md5(i::text) || ' ', 3 + (random() * 20)::int), round((random() * 200)::numeric, 2), (random() * 50)::int,
    timestamp '2024-01-01' + i * interval '20 minutes' from generate_series(1, 25000) i;
create index on items (category_id, price);
create index on items (seller_id);
create table orders (id bigserial primary key, buyer_id bigint not null references users, placed_at timestamp not null,
  state text not null, total numeric(12,2) not null);
insert into orders (buyer_id, placed_at, state, total) select 1 + floor(15000 * power(random(), 2)),
  timestamp '2024-06-01' + i * interval '9 minutes', case when i > 39000 then 'open' else
  (array['shipped','shipped','returned'])[1 + i % 3] end, random() * 300 from generate_series(1, 40000) i;
create index on orders (buyer_id);
create index on orders (state) where state = 'open';
create index on orders (placed_at);
create table order_items (order_id bigint not null references orders on delete cascade, item_id bigint not null
  references items, qty smallint not null, price numeric(10,2) not null, primary key (order_id, item_id));
insert into order_items select o, 1 + floor(25000 * power(random(), 2)), 1 + (random() * 3)::int, random() * 100
  from generate_series(1, 40000) o, lateral generate_series(1, 1 + (o * 7 % 4)) on conflict do nothing;
create index on order_items (item_id);
create table reviews (id bigserial primary key, item_id bigint not null references items, user_id bigint not null
  references users, stars smallint not null, body text, created_at timestamp not null);
insert into reviews (item_id, user_id, stars, body, created_at) select 1 + floor(25000 * power(random(), 3)),
  1 + floor(15000 * random()), 1 + floor(5 * sqrt(random())), repeat('word ', (random() * 60)::int),
  timestamp '2024-06-01' + i * interval '5 minutes' from generate_series(1, 60000) i;
create index on reviews (item_id, created_at desc);
create table carts (user_id bigint not null references users, item_id bigint not null references items,
  qty int not null default 1, added_at timestamp not null default now(), primary key (user_id, item_id));
insert into carts select distinct 1 + floor(15000 * random()), 1 + floor(25000 * random()), 1,
  timestamp '2025-01-01' from generate_series(1, 20000);
create function score(bigint) returns void language sql as 'select null::void';
"""
LOAD = (
    (
        25,
        "\\set id random_zipfian(1, 25000, 1.1)\nselect i.id, i.title, i.description, i.price, u.city from items i"
        " join users u on u.id = i.seller_id where i.id = :id;",
    ),
    (
        12,
        "\\set c random(1, 80)\n\\set p random(10, 150)\nselect id, title, price from items where category_id = :c"
        " and price between :p and :p + 20 order by price limit 24;",
    ),
    (
        15,
        "\\set id random_zipfian(1, 25000, 1.2)\nselect r.stars, r.body, u.email from reviews r join users u"
        " on u.id = r.user_id where r.item_id = :id order by r.created_at desc limit 10;",
    ),
    (8, "\\set id random_zipfian(1, 25000, 1.2)\nselect avg(stars), count(*) from reviews where item_id = :id;"),
    (
        10,
        "\\set u random(1, 15000)\n\\set i random(1, 25000)\ninsert into carts (user_id, item_id) values (:u, :i)"
        " on conflict (user_id, item_id) do update set qty = carts.qty + 1;",
    ),
    (
        10,
        "\\set u random(1, 15000)\nselect o.id, o.placed_at, o.total, count(*) from orders o join order_items l"
        " on l.order_id = o.id where o.buyer_id = :u group by o.id order by o.placed_at desc limit 10;",
    ),
    (6, "\\set i random(1, 25000)\nupdate items set stock = stock - 1 where id = :i and stock > 0;"),
    (
        4,
        "\\set u random(1, 15000)\n\\set i random(1, 25000)\nbegin;\ninsert into orders (buyer_id, placed_at, state,"
        " total) values (:u, now(), 'open', 12);\ninsert into order_items values (currval('orders_id_seq'), :i, 1, 12);"
        "\ndelete from carts where user_id = :u;\ncommit;",
    ),
    (2, "select id, buyer_id, total from orders where state = 'open' order by placed_at limit 100;"),
    (
        2,
        "\\set d random(0, 240)\nselect l.item_id, sum(l.qty) as sold from orders o join order_items l"
        " on l.order_id = o.id where o.placed_at >= timestamp '2024-06-01' + :d * interval '1 day'"
        " and o.placed_at < timestamp '2024-06-02' + :d * interval '1 day' group by l.item_id order by sold desc"
        " limit 20;",
    ),
    (3, "\\set m random(1, 15000)\nselect id, city from users where email = 'u:m@mail.example';"),
)
OTHERS = ("select score(5);", "vacuum categories;", "copy categories to stdout;")
DATABASE = source("market", TABLES, LOAD, OTHERS, SECRETS, SECRET_COLUMNS, "reviews_item_id_created_at_idx")
