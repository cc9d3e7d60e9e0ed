"""The database of a service with many tenants and its load: keys of several columns. For development."""

from __future__ import annotations

from tests.loads.databases import source

SECRETS = ("whsec_9c1f77aa",)
SECRET_COLUMNS = ("app.tenants.webhook_secret",)
TABLES = f"""
create schema app;
create table app.tenants (id int primary key, name text not null, plan text not null, webhook_secret text);
insert into app.tenants select i, 'tenant ' || i, (array['free','free','pro','team'])[1 + i % 4], '{SECRETS[0]}'
  from generate_series(1, 200) i;
create table app.members (tenant_id int not null references app.tenants, id int not null, email text not null,
  role text not null, last_seen timestamptz, primary key (tenant_id, id));
insert into app.members select t, i, 'u' || i || '@t' || t || '.example.com',
    (array['member','member','member','admin'])[1 + i % 4], timestamptz '2025-05-01' + random() * interval '60 days'
  from generate_series(1, 200) t, lateral generate_series(1, greatest(3, (1500 / t))) i;
create unique index on app.members (tenant_id, email);
create table app.projects (tenant_id int not null references app.tenants, id int not null, title text not null,
  archived bool not null, primary key (tenant_id, id));
insert into app.projects select t, i, 'project ' || md5(t || '.' || i), i % 5 = 0
  from generate_series(1, 200) t, lateral generate_series(1, greatest(2, (400 / t))) i;
create table app.tasks (tenant_id int not null, id bigint not null, project_id int not null, assignee_id int,
  state text not null, title text not null, due date, updated_at timestamptz not null, primary key (tenant_id, id),
  foreign key (tenant_id, project_id) references app.projects (tenant_id, id),
  foreign key (tenant_id, assignee_id) references app.members (tenant_id, id));
insert into app.tasks
  select p.tenant_id, row_number() over (partition by p.tenant_id order by random()), p.id,
    case when random() < 0.8 then 1 + floor(random() * greatest(3, 1500 / p.tenant_id))::int end,
    (array['open','open','doing','done','done','done'])[1 + floor(random() * 6)::int], 'task ' || md5(random()::text),
    date '2025-01-01' + (random() * 365)::int, timestamptz '2025-01-01' + random() * interval '180 days'
  from app.projects p, lateral generate_series(1, 5 + (random() * 60)::int) s;
create index on app.tasks (tenant_id, project_id, state);
create index on app.tasks (tenant_id, assignee_id) where state <> 'done';
create index on app.tasks (tenant_id, updated_at desc);
create table app.comments (tenant_id int not null, task_id bigint not null, n int not null, author_id int not null,
  body text not null, written_at timestamptz not null, primary key (tenant_id, task_id, n),
  foreign key (tenant_id, task_id) references app.tasks (tenant_id, id) on delete cascade);
insert into app.comments select t.tenant_id, t.id, c, 1, repeat(md5(random()::text), 1 + (random() * 6)::int),
    t.updated_at from app.tasks t, lateral generate_series(1, (random() * random() * 6)::int) c;
create function app.recalculate(int) returns void language sql as 'select null::void';
"""
PICK = "\\set t random_zipfian(1, 200, 1.01)\n"
LOAD = (
    (
        20,
        PICK + "\\set i random(1, 1 + 1000 / :t)\nselect id, title, state, due from app.tasks where tenant_id = :t"
        " and id = :i;",
    ),
    (
        15,
        PICK + "\\set p random(1, greatest(2, 400 / :t))\nselect id, title, due from app.tasks where tenant_id = :t"
        " and project_id = :p and state = 'open' order by due limit 50;",
    ),
    (15, PICK + "select id, title, updated_at from app.tasks where tenant_id = :t order by updated_at desc limit 30;"),
    (
        10,
        PICK + "\\set i random(1, 1 + 1000 / :t)\nselect c.n, c.body, c.written_at from app.comments c"
        " where c.tenant_id = :t and c.task_id = :i order by c.n;",
    ),
    (
        8,
        PICK + "\\set i random(1, 1 + 1000 / :t)\nupdate app.tasks set state = 'doing', updated_at = now()"
        " where tenant_id = :t and id = :i;",
    ),
    (
        6,
        PICK + "select p.id, p.title, count(*) from app.projects p join app.tasks k on k.tenant_id = p.tenant_id"
        " and k.project_id = p.id where p.tenant_id = :t and not p.archived group by p.id, p.title"
        " order by count(*) desc limit 10;",
    ),
    (
        8,
        PICK + "\\set m random(1, greatest(3, 1500 / :t))\nselect id, email, role from app.members"
        " where tenant_id = :t and email = 'u:m@t:t.example.com';",
    ),
    (
        5,
        PICK + "\\set m random(1, greatest(3, 1500 / :t))\nupdate app.members set last_seen = now()"
        " where tenant_id = :t and id = :m;",
    ),
    (4, PICK + "select state, count(*) from app.tasks where tenant_id = :t group by state;"),
    (2, "select plan, count(*) from app.tenants group by plan;"),
)
OTHERS = ("select app.recalculate(5);", "listen jobs;", "select pg_advisory_xact_lock(3);")
DATABASE = source("saas", TABLES, LOAD, OTHERS, SECRETS, SECRET_COLUMNS, "app.tasks_tenant_id_project_id_state_idx")
