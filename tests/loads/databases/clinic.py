"""The database of a clinic and its load."""

from __future__ import annotations

from tests.loads.databases import source

SECRETS = ("756.9217.0769.85", "+41 79 555 01 23")
SECRET_COLUMNS = ("clinic.patients.ssn", "clinic.patients.phone")
TABLES = f"""
create schema clinic;
create table clinic.doctors (id int primary key, name text not null, department text not null, room int);
insert into clinic.doctors select i, 'doctor ' || i, (array['surgery','cardiology','general','general','general',
  'paediatrics'])[1 + i % 6], i % 40 from generate_series(1, 150) i;
create table clinic.patients (id bigserial primary key, name text not null, born date not null, insurance text not null,
  ssn text not null, phone text);
insert into clinic.patients (name, born, insurance, ssn, phone) select 'patient ' || md5(i::text),
  date '1940-01-01' + (random() * 28000)::int, 'insurance ' || floor(12 * power(random(), 2)), '{SECRETS[0]}',
  '{SECRETS[1]}' from generate_series(1, 18000) i;
create table clinic.appointments (id bigserial primary key, patient_id bigint not null references clinic.patients,
  doctor_id int not null references clinic.doctors, starts_at timestamp not null, state text not null, reason text);
insert into clinic.appointments (patient_id, doctor_id, starts_at, state, reason)
  select 1 + floor(18000 * power(random(), 2.2)), 1 + floor(150 * power(random(), 1.4)),
    timestamp '2024-01-01 08:00' + i * interval '8 minutes', (array['done','done','done','done','missed','cancelled'])
    [1 + floor(6 * random())::int], case when random() < 0.7 then repeat('because ', 1 + (random() * 8)::int) end
  from generate_series(1, 70000) i;
create index on clinic.appointments (doctor_id, starts_at);
create index appointments_of_patient on clinic.appointments (patient_id);
create table clinic.drugs (id int primary key, name text not null unique, class text not null,
  price numeric(8,2) not null);
insert into clinic.drugs select i, 'drug ' || md5(i::text), 'class ' || i % 25, random() * 90
  from generate_series(1, 1200) i;
create table clinic.prescriptions (id bigserial primary key, appointment_id bigint not null
  references clinic.appointments, drug_id int not null references clinic.drugs, dose text not null, days int not null);
insert into clinic.prescriptions (appointment_id, drug_id, dose, days) select 1 + floor(70000 * random()),
  1 + floor(1200 * power(random(), 3)), (array['1-0-0','1-0-1','1-1-1'])[1 + i % 3], 3 + (random() * 27)::int
  from generate_series(1, 60000) i;
create index on clinic.prescriptions (appointment_id);
create index on clinic.prescriptions (drug_id);
create table clinic.results (id bigserial primary key, patient_id bigint not null references clinic.patients,
  code text not null, value numeric(10,3) not null, taken_at timestamp not null);
insert into clinic.results (patient_id, code, value, taken_at) select 1 + floor(18000 * power(random(), 3)),
  'code ' || floor(30 * power(random(), 1.5)), random() * 500, timestamp '2024-01-01' + i * interval '5 minutes'
  from generate_series(1, 100000) i;
create index on clinic.results (patient_id, taken_at desc);
create table clinic.invoices (id bigserial primary key, patient_id bigint not null references clinic.patients,
  issued date not null, amount numeric(10,2) not null, paid bool not null);
insert into clinic.invoices (patient_id, issued, amount, paid) select 1 + floor(18000 * power(random(), 2)),
  date '2024-01-01' + i / 80, 20 + random() * 800, random() < 0.93 from generate_series(1, 40000) i;
create index on clinic.invoices (patient_id);
create index on clinic.invoices (issued);
create function clinic.remind(bigint) returns void language sql as 'select null::void';
"""
# A lookup, three joins, a list with two conditions, a sort, two sums, three updates and two inserts.
LOAD = (
    (20, "\\set id random(1, 18000)\nselect name, born, insurance from clinic.patients where id = :id;"),
    (
        12,
        "\\set d random(1, 150)\n\\set n random(0, 370)\nselect a.id, a.starts_at, a.state, p.name from"
        " clinic.appointments a join clinic.patients p on p.id = a.patient_id where a.doctor_id = :d and a.starts_at"
        " >= timestamp '2024-01-01' + :n * interval '1 day' and a.starts_at < timestamp '2024-01-08' +"
        " :n * interval '1 day' order by a.starts_at;",
    ),
    (
        14,
        "\\set id random_zipfian(1, 18000, 1.05)\nselect a.starts_at, a.reason, d.name from clinic.appointments a"
        " join clinic.doctors d on d.id = a.doctor_id where a.patient_id = :id order by a.starts_at desc limit 20;",
    ),
    (
        10,
        "\\set id random_zipfian(1, 18000, 1.1)\n\\set c random(0, 29)\nselect taken_at, value from clinic.results"
        " where patient_id = :id and code = 'code :c' order by taken_at desc limit 10;",
    ),
    (
        2,
        "\\set n random(0, 440)\nselect id, patient_id, amount from clinic.invoices where issued between"
        " date '2024-01-01' + :n and date '2024-01-01' + :n + 30 order by amount desc;",
    ),
    (
        3,
        "\\set id random(1, 1200)\nselect count(*), avg(p.days) from clinic.prescriptions p join clinic.appointments a"
        " on a.id = p.appointment_id where p.drug_id = :id and a.state = 'done';",
    ),
    (
        8,
        "\\set id random_zipfian(1, 18000, 1.05)\nselect sum(amount) from clinic.invoices where patient_id = :id"
        " and not paid;",
    ),
    (8, "\\set id random(1, 70000)\nupdate clinic.appointments set state = 'done' where id = :id;"),
    (
        6,
        "\\set p random(1, 18000)\n\\set d random(1, 150)\ninsert into clinic.appointments (patient_id, doctor_id,"
        " starts_at, state) values (:p, :d, now(), 'planned');",
    ),
    (
        9,
        "\\set p random_zipfian(1, 18000, 1.1)\n\\set c random(0, 29)\ninsert into clinic.results (patient_id, code,"
        " value, taken_at) values (:p, 'code :c', 12.5, now());",
    ),
    (5, "\\set id random(1, 40000)\nupdate clinic.invoices set paid = true where id = :id;"),
    (3, "\\set id random(1, 18000)\nupdate clinic.patients set phone = '+41 79 555 01 23' where id = :id;"),
)
OTHERS = ("select clinic.remind(7);", "select pg_notify('clinic', 'x');", "create temporary table waiting (id bigint);")
DATABASE = source("clinic", TABLES, LOAD, OTHERS, SECRETS, SECRET_COLUMNS, "clinic.appointments_of_patient")
