-- What "proving twin capture" reads from a production database. A DBA can run it alone:
--
--   psql -XAtq -v seconds=900 -f capture.sql -d DATABASE > capture.jsonl
--
-- It reads catalogs and statistics, never one of your tables, in two read-only transactions of a few seconds each.
-- Between them it waits without a transaction. Variables, each as -v NAME=VALUE:
--
--   seconds   time between the two snapshots of pg_stat_statements: 900
--   secret    columns whose values are not read, as schema.table.column, separated by commas
--   values    1: also read the most common values, and the histogram bounds of text columns
--
-- The output has one JSON object per line. From your data it has: numbers of rows, sizes, statistics of columns, and 21
-- histogram bounds of each column of numbers, dates or times. These bounds are values of the data.
\set ON_ERROR_STOP 1
\if :{?seconds} \else \set seconds 900 \endif
\if :{?secret} \else \set secret '' \endif
\if :{?values} \else \set values 0 \endif
-- Settings of a transaction, not of the session: a connection pooler may give the session to another client.
\set settings 'set /* proving twin */ local client_encoding = ''UTF8'';'
\set settings :settings 'set /* proving twin */ local client_min_messages = warning;'
\set settings :settings 'set /* proving twin */ local statement_timeout = ''60s'';'
\set settings :settings 'set /* proving twin */ local lock_timeout = ''1s'';'
\set settings :settings 'set /* proving twin */ local standard_conforming_strings = on;'
\set settings :settings 'set /* proving twin */ local datestyle = ''ISO, YMD'';'
\set settings :settings 'set /* proving twin */ local intervalstyle = ''iso_8601'';'
\set settings :settings 'set /* proving twin */ local timezone = ''UTC'';'
\set settings :settings 'set /* proving twin */ local search_path = pg_catalog;'

begin transaction isolation level repeatable read, read only;
:settings
select /* proving twin */ set_config('twin.secret', :'secret', true) as ignored \gset

do /* proving twin */ $$
declare misnamed text;
begin
  if current_setting('server_version_num')::int < 130000 then
    raise exception 'this is PostgreSQL %', current_setting('server_version')
      using hint = 'a capture needs PostgreSQL 13 or later';
  end if;
  if not exists (select from pg_extension where extname = 'pg_stat_statements') then
    raise exception 'the extension pg_stat_statements is not installed in the database %', current_database()
      using hint = 'a superuser executes: CREATE EXTENSION pg_stat_statements';
  end if;
  if not exists (select from pg_settings where name = 'pg_stat_statements.max') then
    raise exception 'the library pg_stat_statements is not loaded'
      using hint = 'add it to shared_preload_libraries and restart PostgreSQL';
  end if;
  if not pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
    raise exception 'the role % may not read the statistics of other roles', current_user
      using hint = format('a superuser executes: GRANT pg_monitor TO %I', current_user);
  end if;
  select min(name) into misnamed from unnest(string_to_array(current_setting('twin.secret'), ',')) as secret(name)
    where not exists (select from pg_attribute a join pg_class c on c.oid = a.attrelid
      join pg_namespace n on n.oid = c.relnamespace where a.attnum > 0 and not a.attisdropped
      and concat_ws('.', n.nspname, c.relname, a.attname) = name);
  if misnamed is not null then
    raise exception 'secret: % is not a column of the database %', misnamed, current_database()
      using hint = 'schema.table.column';
  end if;
end $$;
select /* proving twin */ quote_ident(n.nspname) as schema
  from pg_extension e join pg_namespace n on n.oid = e.extnamespace
  where extname = 'pg_stat_statements' \gset pgss_
-- Only statements of clients, not those inside functions. Before PostgreSQL 14, the view has no column for that.
select /* proving twin */
  case when current_setting('server_version_num')::int < 140000 then 'true' else 'toplevel' end as toplevel,
  case when current_setting('server_version_num')::int < 140000 then 'null::timestamptz'
    else format('(select stats_reset from %s.pg_stat_statements_info)', :'pgss_schema') end as reset \gset pgss_

\echo {"capture": 1}
select /* proving twin */ json_build_object('server', json_build_object('database', current_database(),
  'version', current_setting('server_version_num')::int, 'encoding', getdatabaseencoding(),
  'collation', (select datcollate from pg_database where datname = current_database()),
  'bytes', pg_database_size(current_database()), 'standby', pg_is_in_recovery(),
  'values', :'values' = '1', 'secret', string_to_array(:'secret', ',')));

-- Settings that are not texts, because a text may hold a password.
select /* proving twin */ json_build_object('settings', json_object_agg(name, json_build_array(setting, unit)))
  from pg_settings
  where vartype in ('bool', 'integer', 'real', 'enum') and category !~ '^(Preset|Developer|Customized)'
  and (source not in ('default', 'client', 'session') or name in ('shared_buffers', 'work_mem', 'max_connections'));

-- Tables that belong to no extension. A partition counts for its partitioned table.
select /* proving twin */ json_build_object('table', json_build_object('schema', n.nspname, 'name', c.relname,
  'partitioned', c.relkind = 'p', 'rows', size.rows, 'pages', size.pages, 'bytes', size.bytes, 'columns', (
    select json_agg(json_build_object('name', a.attname,
      'type', format_type(coalesce(nullif(t.typbasetype, 0), t.oid), greatest(a.atttypmod, t.typtypmod)),
      'base', b.typname, 'type_schema', bn.nspname, 'kind', b.typtype, 'category', b.typcategory,
      'not_null', a.attnotnull or t.typnotnull, 'default', case when a.attidentity <> '' then 'identity'
        when a.attgenerated <> '' then 'generated' when pg_get_expr(d.adbin, d.adrelid) like 'nextval(%' then 'sequence'
        when d.adbin is not null then 'other' else '' end,
      'labels', (select json_agg(enumlabel order by enumsortorder) from pg_enum where enumtypid = b.oid))
      order by a.attnum)
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    join pg_type b on b.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
    join pg_namespace bn on bn.oid = b.typnamespace
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)))
  from pg_class c join pg_namespace n on n.oid = c.relnamespace, lateral (
    select sum(case when leaf.reltuples > 0 then leaf.reltuples
        else coalesce(pg_stat_get_live_tuples(leaf.oid), 0) end)::bigint as rows,
      sum(leaf.relpages)::bigint as pages, sum(pg_total_relation_size(leaf.oid))::bigint as bytes
    from pg_class leaf where leaf.oid = c.oid and c.relkind = 'r'
      or c.relkind = 'p' and leaf.relkind = 'r' and leaf.oid in (select relid from pg_partition_tree(c.oid))) as size
  where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't'
  and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
  and not exists (select from pg_depend where classid = 'pg_class'::regclass and objid = c.oid and deptype = 'e')
  order by n.nspname, c.relname limit 2000;

-- Keys and indexes, without the text of expressions and predicates.
select /* proving twin */ json_build_object('index', json_build_object('schema', n.nspname, 'table', t.relname,
  'name', c.relname, 'method', am.amname, 'unique', i.indisunique, 'primary', i.indisprimary,
  'bytes', pg_relation_size(c.oid),
  'expressions', i.indexprs is not null, 'partial', i.indpred is not null, 'keys', i.indnkeyatts, 'columns', (
    select json_agg(json_build_object('name', a.attname,
      'descending', ord <= i.indnkeyatts and (i.indoption[ord - 1] & 1) = 1,
      'nulls_first', ord <= i.indnkeyatts and (i.indoption[ord - 1] & 2) = 2,
      'opclass', case when not o.opcdefault and o.opcnamespace = 'pg_catalog'::regnamespace then o.opcname end)
      order by ord)
    from unnest(i.indkey::int2[]) with ordinality as key(attnum, ord)
    left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = key.attnum
    left join pg_opclass o on ord <= i.indnkeyatts and o.oid = i.indclass[ord - 1])))
  from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
  join pg_am am on am.oid = c.relam join pg_namespace n on n.oid = t.relnamespace
  where i.indisvalid and not t.relispartition and t.relpersistence <> 't'
  and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
  order by n.nspname, t.relname, c.relname limit 10000;

select /* proving twin */ json_build_object('foreign_key', json_build_object('schema', n.nspname, 'table', c.relname,
  'columns', (select json_agg(a.attname order by ord) from unnest(f.conkey) with ordinality as key(attnum, ord)
    join pg_attribute a on a.attrelid = f.conrelid and a.attnum = key.attnum),
  'to_schema', pn.nspname, 'to_table', p.relname,
  'to_columns', (select json_agg(a.attname order by ord) from unnest(f.confkey) with ordinality as key(attnum, ord)
    join pg_attribute a on a.attrelid = f.confrelid and a.attnum = key.attnum),
  'on_delete', f.confdeltype))
  from pg_constraint f join pg_class c on c.oid = f.conrelid join pg_namespace n on n.oid = c.relnamespace
  join pg_class p on p.oid = f.confrelid join pg_namespace pn on pn.oid = p.relnamespace
  where f.contype = 'f' and f.conparentid = 0 and not c.relispartition
  order by n.nspname, c.relname, f.conname limit 10000;

-- Statistics of columns. For a secret column, no histogram bounds, common values or frequencies.
select /* proving twin */ json_build_object('statistics', json_build_object('schema', s.schemaname,
  'table', s.tablename, 'column', s.attname, 'null_frac', s.null_frac, 'avg_width', s.avg_width,
  'n_distinct', s.n_distinct, 'correlation', s.correlation, 'secret', hidden.secret,
  'frequencies', case when not hidden.secret then s.most_common_freqs end,
  'common_values', case when not hidden.secret and :'values' = '1' and not typ.typcategory = 'A'
    then s.most_common_vals::text::text[] end,
  'bounds', case when not hidden.secret and (typ.typcategory in ('N', 'D') or :'values' = '1' and typ.typcategory = 'S')
    then (select array_agg(bound order by ord)
      from unnest(s.histogram_bounds::text::text[]) with ordinality as bounds(bound, ord)
      where (ord - 1) % greatest(1, (cardinality(s.histogram_bounds::text::text[]) - 1) / 20) = 0) end))
  from pg_stats s join pg_namespace n on n.nspname = s.schemaname
  join pg_class c on c.relnamespace = n.oid and c.relname = s.tablename
  join pg_attribute a on a.attrelid = c.oid and a.attname = s.attname
  join pg_type declared on declared.oid = a.atttypid
  join pg_type typ on typ.oid = coalesce(nullif(declared.typbasetype, 0), declared.oid),
  lateral (select concat_ws('.', s.schemaname, s.tablename, s.attname) = any (string_to_array(:'secret', ','))
    as secret) as hidden
  where c.relkind in ('r', 'p') and not c.relispartition and s.inherited = (c.relkind = 'p')
  and s.schemaname not in ('pg_catalog', 'information_schema')
  order by s.schemaname, s.tablename, a.attnum limit 50000;

select /* proving twin */ json_build_object('snapshot', json_build_object('number', 1,
  'at', extract(epoch from clock_timestamp()), 'reset', extract(epoch from :pgss_reset)));
select /* proving twin */ json_build_object('before', json_build_array(queryid::text, calls, total_exec_time, rows,
  shared_blks_hit, shared_blks_read, temp_blks_read, temp_blks_written, wal_bytes)) from (
    select queryid, sum(calls) as calls, sum(total_exec_time) as total_exec_time, sum(rows) as rows,
      sum(shared_blks_hit) as shared_blks_hit, sum(shared_blks_read) as shared_blks_read,
      sum(temp_blks_read) as temp_blks_read, sum(temp_blks_written) as temp_blks_written, sum(wal_bytes) as wal_bytes
    from :pgss_schema.pg_stat_statements(false)
    where dbid = (select oid from pg_database where datname = current_database()) and :pgss_toplevel
    group by queryid) as statements;
-- Updated rows of each table, and those whose page had room for the new version (heap-only tuples).
select /* proving twin */ json_build_object('changes', json_build_array(n.nspname, c.relname, 1,
  coalesce(pg_stat_get_tuples_updated(c.oid), 0), coalesce(pg_stat_get_tuples_hot_updated(c.oid), 0)))
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and not c.relispartition and pg_stat_get_tuples_updated(c.oid) > 0
  and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
  order by n.nspname, c.relname limit 2000;
commit;

\setenv TWIN_SECONDS :seconds
\! sleep $TWIN_SECONDS
-- A new connection: a server or a firewall may have closed the idle one.
\connect

begin transaction isolation level repeatable read, read only;
:settings
select /* proving twin */ json_build_object('snapshot', json_build_object('number', 2,
  'at', extract(epoch from clock_timestamp()), 'reset', extract(epoch from :pgss_reset)));
-- pg_stat_statements replaces constants with $1, $2, ... in statements that read or write rows, but not in all of them,
-- and keeps comments. Comments are removed; a list ($1 /*, ... */) becomes ($1...). If the text may still hold a
-- constant, only its first word is read: all other commands, and texts with a string, a number of more than three
-- digits, or one with a letter, an underscore or a decimal point. Of a text with nested comments, nothing is read.
select /* proving twin */ json_build_object('after', json_build_array(queryid::text, calls, total_exec_time, rows,
  shared_blks_hit, shared_blks_read, temp_blks_read, temp_blks_written, wal_bytes, case when ordinal > 1000 then ''
    when text ~ '\*/' then '?'
    when text ~* '^\s*\(*\s*(select|insert|update|delete|merge|with|values)\M'
      and text !~ '''|\$([^0-9\s$][^\s$]*)?\$' and text !~ '(?<![$0-9a-zA-Z_])([0-9]{4,}|[0-9]+[a-zA-Z_])'
      and text !~ '[0-9]\.[0-9]' and length(text) <= 8000 then text
    else upper((regexp_match(text, '^[^a-zA-Z]*([a-zA-Z]+)'))[1]) end))
  from (select *, regexp_replace(regexp_replace(regexp_replace(query,
      '\s*/\*, \.\.\. \*/', '...', 'g'), '/\*.*?\*/', ' ', 'g'), '--[^\n\r]*', ' ', 'g') as text
    from (select queryid, min(query) as query, sum(calls) as calls, sum(total_exec_time) as total_exec_time,
        sum(rows) as rows, sum(shared_blks_hit) as shared_blks_hit, sum(shared_blks_read) as shared_blks_read,
        sum(temp_blks_read) as temp_blks_read, sum(temp_blks_written) as temp_blks_written,
        sum(wal_bytes) as wal_bytes, rank() over (order by sum(total_exec_time) desc) as ordinal
      from :pgss_schema.pg_stat_statements(true)
      where dbid = (select oid from pg_database where datname = current_database()) and :pgss_toplevel
      and query !~ '^[a-z]+ /\* proving twin'
      group by queryid) as statements) as texts order by ordinal;
select /* proving twin */ json_build_object('changes', json_build_array(n.nspname, c.relname, 2,
  coalesce(pg_stat_get_tuples_updated(c.oid), 0), coalesce(pg_stat_get_tuples_hot_updated(c.oid), 0)))
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and not c.relispartition and pg_stat_get_tuples_updated(c.oid) > 0
  and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
  order by n.nspname, c.relname limit 2000;
commit;
\echo {"end": 1}
