"""The database of a bank and its load: transfers, statements of accounts, a ledger that grows. For development."""

from __future__ import annotations

from tests.loads.databases import source

SECRETS = ("DE89370400440532013000",)
SECRET_COLUMNS = ("public.customers.iban",)
TABLES = f"""
create table branches (id int primary key, city text not null, opened date not null);
insert into branches select i, 'city ' || i % 40, date '1990-01-01' + i * 50 from generate_series(1, 120) i;
create table customers (id bigserial primary key, branch_id int not null references branches, name text not null,
  segment text not null, iban text not null, since date not null);
insert into customers (branch_id, name, segment, iban, since)
  select 1 + floor(120 * power(random(), 2)), 'customer ' || md5(i::text), (array['retail','retail','retail','premium',
    'business'])[1 + i % 5], '{SECRETS[0]}', date '2005-01-01' + i / 5 from generate_series(1, 20000) i;
create index on customers (branch_id, segment);
create table accounts (id bigserial primary key, customer_id bigint not null references customers,
  kind smallint not null, balance numeric(14,2) not null, updated_at timestamptz not null);
insert into accounts (customer_id, kind, balance, updated_at)
  select 1 + i % 20000, i % 3, random() * 10000, timestamptz '2025-06-01' + random() * interval '90 days'
  from generate_series(1, 32000) i;
create index on accounts (customer_id);
create table transfers (id bigserial primary key, from_account bigint not null references accounts,
  to_account bigint not null references accounts, amount numeric(12,2) not null, purpose text,
  booked_at timestamptz not null, status char(1) not null);
insert into transfers (from_account, to_account, amount, purpose, booked_at, status)
  select 1 + floor(32000 * power(random(), 2.5)), 1 + floor(32000 * random()), random() * 500,
    case when random() < 0.6 then 'invoice ' || md5(i::text) end,
    timestamptz '2025-01-01' + i * interval '2 minutes', (array['b','b','b','b','b','b','b','b','p','r'])[1 + i % 10]
  from generate_series(1, 120000) i;
create index on transfers (from_account, booked_at desc);
create index on transfers (to_account);
create index on transfers (booked_at);
create table daily_balances (account_id bigint not null references accounts, day date not null,
  balance numeric(14,2) not null, primary key (account_id, day));
insert into daily_balances select a, date '2025-08-01' + d, random() * 1000
  from generate_series(1, 8000) a, generate_series(1, 14) d;
create function check_limits(bigint) returns void language sql as 'select null::void';
"""
LOAD = (
    (
        20,
        "\\set id random_zipfian(1, 32000, 1.05)\nselect a.id, a.balance, c.name from accounts a"
        " join customers c on c.id = a.customer_id where a.id = :id;",
    ),
    (
        15,
        "\\set id random_zipfian(1, 32000, 1.1)\nselect id, to_account, amount, purpose, booked_at from transfers"
        " where from_account = :id order by booked_at desc limit 10;",
    ),
    (
        15,
        "\\set f random(1, 32000)\n\\set t random(1, 32000)\nbegin;\n"
        "update accounts set balance = balance - 10, updated_at = now() where id = :f;\n"
        "update accounts set balance = balance + 10, updated_at = now() where id = :t;\n"
        "insert into transfers (from_account, to_account, amount, purpose, booked_at, status)"
        " values (:f, :t, 10, 'a transfer', now(), 'p');\ncommit;",
    ),
    (
        5,
        "\\set id random(1, 32000)\nselect count(*), sum(amount) from transfers where to_account = :id"
        " and status = 'b';",
    ),
    (
        4,
        "\\set d random(0, 160)\nselect status, count(*), sum(amount) from transfers where booked_at"
        " >= timestamptz '2025-01-01' + :d * interval '1 day' and booked_at < timestamptz '2025-01-02'"
        " + :d * interval '1 day' group by status order by status;",
    ),
    (
        8,
        "\\set id random(1, 8000)\nselect day, balance from daily_balances where account_id = :id and day"
        " between date '2025-08-04' and date '2025-08-10' order by day;",
    ),
    (
        3,
        "\\set b random(1, 120)\nselect id, name from customers where branch_id = :b and segment = 'premium'"
        " order by name limit 20;",
    ),
    (
        2,
        "\\set b random_zipfian(1, 120, 1.2)\nselect c.segment, count(*), avg(a.balance) from customers c"
        " join accounts a on a.customer_id = c.id where c.branch_id = :b group by c.segment;",
    ),
    (6, "\\set id random(1, 20000)\nselect id, kind, balance from accounts where customer_id = :id;"),
)
OTHERS = ("select check_limits(5);", "select pg_notify('bank', 'x');", "copy branches to stdout;")
DATABASE = source("bank", TABLES, LOAD, OTHERS, SECRETS, SECRET_COLUMNS, "accounts_customer_id_idx")
