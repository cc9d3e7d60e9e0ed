-- Each calibrated statement: what it read per call in production, and what it is expected to read in the twin: first
-- with keys drawn evenly, then as they are drawn.
create table proving_twin.calibration (name text primary key, target_rows float8, target_blocks float8,
  base_rows float8, base_blocks float8, rows float8, blocks float8, size float8, row_limit bigint, note text);

-- Parts of the keys of each statement: ranks from `low` to `high`, and the means of some calls with keys of this part.
create table proving_twin.parts (name text, part int, low bigint, high bigint, absent bool, rows float8, blocks float8,
  weight float8, primary key (name, part));

-- Rows and blocks of one call. Variables of pgbench have values that depend on `seed`. Changes are rolled back.
create function proving_twin.measure(statement text, most bigint[], seed bigint, out rows float8, out blocks float8)
language plpgsql as $function$
declare plan json; text text := statement;
begin
  for n in reverse cardinality(most)..1 loop
    text := replace(text, ':twin_' || n, (1 + floor(proving_twin.hash(seed, n) * most[n])::bigint)::text);
  end loop;
  begin
    execute 'explain (analyze, buffers, timing off, format json) ' || text into plan;
    raise exception using errcode = 'TW001';
  exception when sqlstate 'TW001' then null;
  end;
  plan := plan -> 0 -> 'Plan';
  blocks := (plan ->> 'Shared Hit Blocks')::float8 + (plan ->> 'Shared Read Blocks')::float8;
  if plan ->> 'Node Type' = 'ModifyTable' then plan := plan -> 'Plans' -> 0; end if;
  rows := (plan ->> 'Actual Rows')::float8 * (plan ->> 'Actual Loops')::float8;
end $function$;

-- The statement with one key, width and LIMIT.
create function proving_twin.filled(statement text, name text, variable text, rank bigint, width bigint, lim bigint)
returns text language sql immutable as $function$
  select replace(replace(replace(statement, format('proving_twin.rank_%s(%s)', name, variable), coalesce(rank, 1)::text),
    format('proving_twin.width_%s(%s)', name, variable), coalesce(width, 1)::text),
    format('proving_twin.limit_%s(%s)', name, variable), coalesce(lim, 1)::text)
$function$;

-- How far means are from those of production; 0 if equal.
create function proving_twin.deviation(rows float8, blocks float8, target_rows float8, target_blocks float8,
  by_blocks bool) returns float8 language sql immutable as $function$
  select power(ln((rows + 0.1) / (target_rows + 0.1)), 2)
    + case when by_blocks then power(ln((blocks + 0.1) / (target_blocks + 0.1)), 2) else 0 end
$function$;

-- Means of a statement if its keys are drawn evenly, multiplied by powers of blocks and rows; `absent`: the share of
-- calls with keys that no row has.
create function proving_twin.means(of text, by_blocks float8, by_rows float8, absent_share float8,
  out rows float8, out blocks float8) language sql as $function$
  select sum(tilted * p.rows) / sum(tilted) * (1 - absent_share) + coalesce(absent_share * max(none.rows), 0),
    sum(tilted * p.blocks) / sum(tilted) * (1 - absent_share) + coalesce(absent_share * max(none.blocks), 0)
  from (select *, (high - low + 1) * power(parts.blocks + 0.1, by_blocks) * power(parts.rows + 0.1, by_rows) as tilted
    from proving_twin.parts where parts.name = of and not absent) p
  left join proving_twin.parts none on none.name = of and none.absent
$function$;

create function proving_twin.calibrate(of text, statement text, variable text, most bigint[], target_rows float8,
  target_blocks float8, by_blocks bool, ranks bigint, width float8, widest bigint, row_limit float8)
returns void language plpgsql as $function$
declare
  calls int := greatest(60, least(1000, 3e5 / greatest(1, target_blocks)));
  probes int := least(8, greatest(3, calls / 50));
  best float8; found record; size float8 := 1; lim float8 := row_limit; m record; now float8;
  a float8 := 0; b float8 := 0; c float8 := 0; step float8 := 1; moved bool; each int; base record;
begin
  -- Width and LIMIT, with a few keys: all widths, all limits, then widths close to the best one.
  for phase in 1..4 loop
    for found in
      select s, l from (
        select power(2, n) as s, lim as l from generate_series(-12, 12) n where phase = 1 and width is not null
        union all select size, f from unnest(array[1, 5, 10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 75, 100, 200, 500, 1000])
          f where phase = 2 and f between row_limit and 30 * row_limit
        union all select size * power(2, n / 2.0), lim from generate_series(-3, 3) n where phase = 3 and width is not null
        union all select size * power(2, n / 8.0), lim from generate_series(-3, 3) n where phase = 4 and width is not null
        union all select 1, lim where phase = 1) candidates order by abs(ln(s)), l
    loop
      continue when width * found.s > 1.5 * widest or width * found.s < 0.5;
      select avg(r.rows) as rows, avg(r.blocks) as blocks into m from generate_series(1, probes) k, lateral
        proving_twin.measure(proving_twin.filled(statement, of, variable,
          1 + ((k - 0.5) * greatest(ranks, 1) / probes)::bigint,
          greatest(1, least(widest, round(width * found.s)))::bigint, round(found.l)::bigint), most, k) r;
      now := proving_twin.deviation(m.rows, m.blocks, target_rows, target_blocks, by_blocks)
        + 0.0001 * power(ln(found.s), 2);
      if best is null or now < best then
        best := now; size := found.s; lim := found.l;
      end if;
      exit when best < 0.0005;
    end loop;
    exit when best < 0.0005;
  end loop;

  -- Parts of the keys: small ones for the first ranks, which are the most frequent ones.
  insert into proving_twin.parts
    select of, row_number() over (order by low), low, lead(low, 1, greatest(ranks, 1) + 1) over (order by low) - 1, false
    from (select distinct least(greatest(ranks, 1), low) as low from (
      select 1 + floor(n / 24.0 * ranks)::bigint as low from generate_series(0, 23) n
      union select power(1.5, n)::bigint from generate_series(0, 24) n where power(1.5, n) < ranks / 16.0) as edges) e;
  if ranks > 0 then
    insert into proving_twin.parts
      select of, count(*) + 1, ranks + 1, 2 * ranks, true from proving_twin.parts p where p.name = of;
  end if;
  update proving_twin.parts p set rows = mean.rows, blocks = mean.blocks from (
    select part, avg(r.rows) as rows, avg(r.blocks) as blocks
    from proving_twin.parts p, generate_series(1, greatest(2, least(10, calls / 50))) k, lateral
      proving_twin.measure(proving_twin.filled(statement, of, variable,
        low + floor(proving_twin.hash(k, part) * (high - low + 1))::bigint,
        greatest(1, least(widest, round(width * size)))::bigint, round(lim)::bigint), most, 100 * part + k) r
    where p.name = of group by part) as mean
  where p.name = of and p.part = mean.part;

  -- The powers with the smallest deviation; small ones are preferred, because they are close to even draws.
  select * into base from proving_twin.means(of, 0, 0, 0);
  best := proving_twin.deviation(base.rows, base.blocks, target_rows, target_blocks, by_blocks);
  while step > 0.01 loop
    moved := false;
    for each in 1..6 loop
      continue when each > 4 and (ranks = 0 or target_rows > 0.98 * base.rows) or each <= 2 and not by_blocks;
      select a + (array[step, -step, 0, 0, 0, 0])[each] as a, b + (array[0, 0, step, -step, 0, 0])[each] as b,
        c + (array[0, 0, 0, 0, step / 8, -step / 8])[each] as c into found;
      continue when found.c < 0 or found.c > 0.99 or abs(found.a) > 10 or abs(found.b) > 10;
      select * into m from proving_twin.means(of, found.a, found.b, found.c);
      now := proving_twin.deviation(m.rows, m.blocks, target_rows, target_blocks, by_blocks)
        + 0.00005 * (found.a * found.a + found.b * found.b) + 0.002 * found.c;
      if now < best - 1e-9 then
        best := now; a := found.a; b := found.b; c := found.c; moved := true;
      end if;
    end loop;
    if not moved then step := step / 2; end if;
  end loop;
  update proving_twin.parts p set weight = case when absent then c * total.weight / greatest(1e-9, 1 - c)
      else (high - low + 1) * power(p.blocks + 0.1, a) * power(p.rows + 0.1, b) end
    from (select sum((high - low + 1) * power(t.blocks + 0.1, a) * power(t.rows + 0.1, b)) as weight
      from proving_twin.parts t where t.name = of and not absent) as total where p.name = of;
  select * into m from proving_twin.means(of, a, b, c);
  insert into proving_twin.calibration values (of, target_rows, target_blocks, base.rows, base.blocks, m.rows,
    m.blocks, size, round(lim), format('powers %s and %s, absent %s', round(a::numeric, 2), round(b::numeric, 2),
    round(c::numeric, 3)));
  perform proving_twin.choose(of, ranks, greatest(1, least(widest, round(width * size)))::bigint, round(lim)::bigint);
-- Reaching the time limit cancels the query. After that, as after an error, keys are drawn evenly.
exception when others or query_canceled then
  insert into proving_twin.calibration (name, target_rows, target_blocks, note)
    values (of, target_rows, target_blocks, sqlerrm);
end $function$;

-- Functions of a statement with the chosen weights, width and LIMIT.
create function proving_twin.choose(of text, ranks bigint, width bigint, row_limit bigint) returns void
language plpgsql as $function$
declare
  bodies text[]; ends float8[]; starts float8[]; slopes float8[];
begin
  select array_agg(high_u order by part), array_agg(low - (high - low + 1) * low_u / (high_u - low_u) order by part),
    array_agg((high - low + 1) / (high_u - low_u) order by part) into ends, starts, slopes
    from (select *, high_u - 1e9 * weight / total as low_u from (
      select *, 1e9 * sum(weight) over (order by part) / sum(weight) over () as high_u, sum(weight) over () as total
      from proving_twin.parts p where p.name = of and weight > 0) shares) as drawn where high_u > low_u;
  if ranks > 0 then
    execute format('create or replace function proving_twin.rank_%s(u bigint) returns bigint language plpgsql immutable'
      ' strict parallel safe as %L', of, format('declare part int := least(%s, 1 + width_bucket(u - 1, %L::float8[]));'
      ' begin return greatest(1, floor((%L::float8[])[part] + (%L::float8[])[part] * (u - 1)))::bigint; end',
      cardinality(ends), ends, starts, slopes));
  end if;
  if width is not null then
    execute format('create or replace function proving_twin.width_%s(u bigint) returns bigint language plpgsql immutable'
      ' strict parallel safe as %L', of, format('begin return %s; end', width));
  end if;
  if row_limit is not null then
    execute format('create or replace function proving_twin.limit_%s(u bigint) returns bigint language plpgsql immutable'
      ' strict parallel safe as %L', of, format('begin return %s; end', row_limit));
  end if;
end $function$;
