-- Version 1. Times are unix milliseconds by the server's clock, hashes 16 bytes, weights bytes as retention counts them.
-- The tables mean what those of the embedded store mean; the rules are those of src/store/engine.rs.

CREATE TABLE restap.meta(name text PRIMARY KEY, value bytea NOT NULL);

CREATE TABLE restap.agent(
  hash bytea PRIMARY KEY,
  floor bigint NOT NULL DEFAULT 0,       -- the highest timestamp of any dropped feed
  newest bigint NOT NULL DEFAULT 0,      -- the highest timestamp given out
  feeds bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0        -- of all items kept
) WITH (fillfactor = 50);

-- An item is kept while its timestamp is at least `first_ts` of its feed; those from `swept` on may still be there.
-- `count` and `weight` run over all items that the feed ever had, and `first_*` is where they stood before the oldest
-- one kept. Whoever changes a feed has its agent's row locked.
CREATE TABLE restap.feed(
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hash bytea NOT NULL UNIQUE,
  agent bytea NOT NULL,
  own boolean NOT NULL,
  owner bytea,
  used_ms bigint NOT NULL,
  last bigint NOT NULL DEFAULT 0,
  spent bigint NOT NULL DEFAULT 0,
  count bigint NOT NULL DEFAULT 0,
  weight bigint NOT NULL DEFAULT 0,
  first_ts bigint NOT NULL DEFAULT 0,
  first_count bigint NOT NULL DEFAULT 0,
  first_weight bigint NOT NULL DEFAULT 0,
  first_ms bigint NOT NULL DEFAULT 0,
  swept bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX feed_use ON restap.feed(agent, used_ms, id) WHERE NOT own;
CREATE INDEX feed_age ON restap.feed(first_ms) WHERE count > first_count;
CREATE INDEX feed_litter ON restap.feed(id) WHERE swept < first_ts;

CREATE TABLE restap.item(
  feed bigint NOT NULL,
  ts bigint NOT NULL,
  received_ms bigint NOT NULL,
  count bigint NOT NULL,                 -- items of the feed before this one
  weight bigint NOT NULL,                -- and their weight
  answer boolean NOT NULL,
  queries bytea[],
  json bytea NOT NULL,
  PRIMARY KEY (feed, ts)
);
-- What clients send is text that hardly shrinks, and is read far more often than it is kept for long.
ALTER TABLE restap.item ALTER COLUMN json SET STORAGE EXTERNAL;
CREATE INDEX item_queries ON restap.item USING gin (queries) WHERE queries IS NOT NULL;

-- Feeds that are gone and whose items wait to be removed.
CREATE TABLE restap.dropped(feed bigint PRIMARY KEY);

CREATE TABLE restap.owner(
  kind smallint NOT NULL,
  hash bytea NOT NULL,
  records bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, hash)
) WITH (fillfactor = 50);

-- `used` is the order in which records were put. Whoever changes a record has its owner's row locked.
CREATE SEQUENCE restap.use;
CREATE TABLE restap.record(
  kind smallint NOT NULL,
  hash bytea NOT NULL,
  owner bytea NOT NULL,
  version bigint NOT NULL,
  expires_ms bigint NOT NULL,
  used bigint NOT NULL,
  item_feed bytea,
  item_ts bigint,
  body bytea NOT NULL,
  PRIMARY KEY (hash, kind)
);
CREATE INDEX record_use ON restap.record(kind, owner, used);
CREATE INDEX record_expiry ON restap.record(expires_ms);

CREATE TABLE restap.lease(
  key bytea PRIMARY KEY,
  holder bytea NOT NULL,
  note bytea NOT NULL,
  until_ms bigint NOT NULL
) WITH (fillfactor = 50);

-- Lost with the server, as rates may be.
CREATE UNLOGGED TABLE restap.rate(
  key bytea PRIMARY KEY,
  used bigint NOT NULL,
  at_ms bigint NOT NULL,
  full_ms bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX rate_full ON restap.rate(full_ms);

-- The time; a test gives its own.
CREATE FUNCTION restap.now_ms(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- Drops a feed of an agent whose row is locked.
CREATE FUNCTION restap.drop_feed(dropped_id bigint) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  f restap.feed;
BEGIN
  DELETE FROM restap.feed WHERE id = dropped_id RETURNING * INTO f;
  IF NOT FOUND THEN RETURN; END IF;
  UPDATE restap.agent SET feeds = greatest(feeds - 1, 0), floor = greatest(floor, f.last),
    bytes = greatest(bytes - (f.weight - f.first_weight), 0) WHERE hash = f.agent;
  IF f.count - f.first_count <= 64 AND f.swept >= f.first_ts THEN
    DELETE FROM restap.item WHERE feed = f.id;
  ELSE
    INSERT INTO restap.dropped(feed) VALUES (f.id);
  END IF;
END $$;

-- Drops an agent's least recently used session feed, failing that the oldest items of its largest feed; false if there
-- is nothing to drop.
CREATE FUNCTION restap.shrink(of_agent bytea, written bigint, over bigint, whole boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  idle bigint;
  f restap.feed;
  m restap.item;
BEGIN
  SELECT id INTO idle FROM restap.feed WHERE agent = of_agent AND NOT own AND id <> written ORDER BY used_ms, id LIMIT 1;
  IF FOUND THEN
    PERFORM restap.drop_feed(idle);
    RETURN true;
  END IF;
  IF whole THEN RETURN false; END IF;
  SELECT * INTO f FROM restap.feed WHERE agent = of_agent AND count - first_count > 1
    ORDER BY weight - first_weight DESC LIMIT 1;
  IF NOT FOUND THEN RETURN false; END IF;
  SELECT * INTO m FROM restap.item WHERE feed = f.id AND ts > f.first_ts
    AND (weight >= f.first_weight + over OR ts = f.last) ORDER BY ts LIMIT 1;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE restap.feed SET first_ts = m.ts, first_count = m.count, first_weight = m.weight, first_ms = m.received_ms
    WHERE id = f.id;
  UPDATE restap.agent SET bytes = greatest(bytes - (m.weight - f.first_weight), 0) WHERE hash = of_agent;
  RETURN true;
END $$;

-- Makes a batch of changes, each whole or not at all. What is given of the changes: an array for every property, and the
-- number of the change (from 1) for what a change may have several of. Rows: the number of each change, what became of
-- it (0 made, 1 a conflict, 2 too fast) and the timestamp of its item.
CREATE FUNCTION restap.commit(
  given bigint, changes int, burst bigint, limit_bytes bigint, limit_agent_bytes bigint, limit_feeds bigint,
  f_agent bytea[], f_hash bytea[], f_own boolean[], f_owner bytea[], f_json bytea[], f_weight bigint[],
  f_queries bytea[], f_answer boolean[], f_items bigint[], f_bytes bigint[], f_age bigint[],
  p_change int[], p_kind smallint[], p_hash bytea[], p_owner bytea[], p_expect bigint[], p_body bytea[],
  p_ttl bigint[], p_records bigint[], p_bytes bigint[],
  l_change int[], l_key bytea[], l_holder bytea[]
) RETURNS TABLE(change int, outcome int, ts bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  now_ms bigint;
  made boolean[] := '{}';
  p int := 1;
  p_first int;
  puts int := coalesce(cardinality(p_change), 0);
  f restap.feed;
  m restap.item;
  r record;
  o restap.owner;
  a restap.agent;
  place bytea;
  w bigint;
  freed bigint;
  spending bigint;
  total bigint;
  heaviest bytea;
  named bytea[];
  clean boolean;
BEGIN
  -- Rows are locked in one order by everybody: agents, owners, then what belongs to them, leases last.
  INSERT INTO restap.agent AS x(hash) SELECT DISTINCT u FROM unnest(f_agent) u WHERE u IS NOT NULL ORDER BY u
    ON CONFLICT DO NOTHING;
  PERFORM 1 FROM restap.agent WHERE hash = ANY (f_agent) ORDER BY hash FOR UPDATE;
  IF puts > 0 THEN
    INSERT INTO restap.owner AS x(kind, hash)
      SELECT DISTINCT k, u FROM unnest(p_kind, p_owner) q(k, u) ORDER BY k, u
      ON CONFLICT (kind, hash) DO UPDATE SET records = x.records;
  END IF;
  -- Later than every change that was made before.
  now_ms := restap.now_ms(given);
  FOR i IN 1..changes LOOP
    change := i; outcome := 0; ts := NULL; place := NULL; made[i] := false;
    p_first := p;
    WHILE p <= puts AND p_change[p] = i LOOP
      SELECT version, expires_ms INTO r FROM restap.record WHERE hash = p_hash[p] AND kind = p_kind[p];
      IF FOUND AND NOT (r.version = p_expect[p] OR (p_expect[p] = 0 AND r.expires_ms <= now_ms)) THEN outcome := 1; END IF;
      p := p + 1;
    END LOOP;
    IF outcome = 0 AND f_hash[i] IS NOT NULL THEN
      SELECT * INTO f FROM restap.feed WHERE hash = f_hash[i];
      IF NOT FOUND THEN
        INSERT INTO restap.feed(hash, agent, own, owner, used_ms)
          VALUES (f_hash[i], f_agent[i], f_own[i], CASE WHEN NOT f_own[i] THEN f_owner[i] END, now_ms) RETURNING * INTO f;
        UPDATE restap.agent SET feeds = feeds + 1 WHERE hash = f.agent;
      END IF;
      IF f_json[i] IS NULL THEN
        UPDATE restap.feed SET used_ms = now_ms WHERE id = f.id;
      ELSE
        -- The rule of `Ticker` in src/store/feed.rs.
        spending := CASE WHEN f.spent > now_ms + burst THEN now_ms ELSE greatest(f.spent, now_ms) END;
        IF spending = now_ms + burst THEN
          outcome := 2;
        ELSE
          w := f_weight[i];
          IF f.last = 0 THEN
            SELECT floor INTO f.last FROM restap.agent WHERE hash = f.agent;
          END IF;
          ts := greatest(now_ms, f.last + 1);
          place := f.hash;
          named := NULL;
          FOR q IN 0..coalesce(length(f_queries[i]), 0) / 16 - 1 LOOP
            named := array_append(named, substr(f_queries[i], q * 16 + 1, 16));
          END LOOP;
          INSERT INTO restap.item(feed, ts, received_ms, count, weight, answer, queries, json)
            VALUES (f.id, commit.ts, now_ms, f.count, f.weight, f_answer[i], named, f_json[i]);
          clean := f.swept >= f.first_ts;
          IF f.count = f.first_count THEN
            f.first_ts := ts; f.first_weight := f.weight; f.first_ms := now_ms;
            IF clean THEN f.swept := ts; END IF;
          END IF;
          f.last := ts; f.spent := spending + 1; f.count := f.count + 1; f.weight := f.weight + w; freed := 0;
          -- Retention: the first item that may stay, or the newest.
          IF f.first_ts < f.last AND (f.count - f.first_count > f_items[i] OR f.weight - f.first_weight > f_bytes[i]
              OR f.first_ms + f_age[i] < now_ms) THEN
            SELECT * INTO m FROM restap.item x WHERE x.feed = f.id AND x.ts > f.first_ts AND (x.ts = f.last OR (
              x.count >= f.count - f_items[i] AND x.weight >= f.weight - f_bytes[i] AND x.received_ms + f_age[i] >= now_ms))
              ORDER BY x.ts LIMIT 1;
            freed := m.weight - f.first_weight;
            IF m.count - f.first_count <= 64 THEN
              DELETE FROM restap.item x WHERE x.feed = f.id AND x.ts >= f.first_ts AND x.ts < m.ts;
              IF clean THEN f.swept := m.ts; END IF;
            END IF;
            f.first_ts := m.ts; f.first_count := m.count; f.first_weight := m.weight; f.first_ms := m.received_ms;
          END IF;
          UPDATE restap.feed SET used_ms = now_ms, last = f.last, spent = f.spent, count = f.count, weight = f.weight,
            first_ts = f.first_ts, first_count = f.first_count, first_weight = f.first_weight, first_ms = f.first_ms,
            swept = f.swept WHERE id = f.id;
          UPDATE restap.agent x SET bytes = greatest(x.bytes + w - freed, 0), newest = greatest(x.newest, commit.ts)
            WHERE x.hash = f.agent;
        END IF;
      END IF;
      IF outcome = 0 THEN
        SELECT * INTO a FROM restap.agent WHERE hash = f.agent;
        WHILE a.feeds > limit_feeds AND restap.shrink(f.agent, f.id, 0, true) LOOP
          SELECT * INTO a FROM restap.agent WHERE hash = f.agent;
        END LOOP;
        WHILE a.bytes > limit_agent_bytes AND restap.shrink(f.agent, f.id, a.bytes - limit_agent_bytes, false) LOOP
          SELECT * INTO a FROM restap.agent WHERE hash = f.agent;
        END LOOP;
        IF limit_bytes IS NOT NULL THEN
          LOOP
            SELECT sum(bytes)::bigint INTO total FROM restap.agent;
            EXIT WHEN total <= limit_bytes;
            SELECT hash INTO heaviest FROM restap.agent ORDER BY bytes DESC LIMIT 1 FOR UPDATE;
            EXIT WHEN NOT restap.shrink(heaviest, f.id, total - limit_bytes, false);
          END LOOP;
        END IF;
      END IF;
    END IF;
    IF outcome = 0 THEN
      made[i] := true;
      FOR j IN p_first..p - 1 LOOP
        SELECT version, length(body) AS bytes INTO r FROM restap.record WHERE hash = p_hash[j] AND kind = p_kind[j];
        IF NOT FOUND THEN SELECT p_expect[j] AS version, NULL::int AS bytes INTO r; END IF;
        INSERT INTO restap.record AS x(kind, hash, owner, version, expires_ms, used, item_feed, item_ts, body)
          VALUES (p_kind[j], p_hash[j], p_owner[j], r.version + 1, now_ms + p_ttl[j], nextval('restap.use'), place, commit.ts,
            p_body[j])
          ON CONFLICT (hash, kind) DO UPDATE SET version = excluded.version, expires_ms = excluded.expires_ms,
            used = excluded.used, item_feed = excluded.item_feed, item_ts = excluded.item_ts, body = excluded.body;
        UPDATE restap.owner x SET records = x.records + CASE WHEN r.bytes IS NULL THEN 1 ELSE 0 END,
            bytes = x.bytes + length(p_body[j]) - coalesce(r.bytes, 0)
          WHERE x.kind = p_kind[j] AND x.hash = p_owner[j] RETURNING * INTO o;
        WHILE o.records > p_records[j] OR o.bytes > p_bytes[j] LOOP
          DELETE FROM restap.record x WHERE (x.hash, x.kind) = (
            SELECT y.hash, y.kind FROM restap.record y WHERE y.kind = o.kind AND y.owner = o.hash ORDER BY y.used LIMIT 1)
            RETURNING length(x.body) AS bytes INTO r;
          EXIT WHEN NOT FOUND;
          UPDATE restap.owner x SET records = x.records - 1, bytes = x.bytes - r.bytes
            WHERE x.kind = o.kind AND x.hash = o.hash RETURNING * INTO o;
        END LOOP;
      END LOOP;
    END IF;
    RETURN NEXT;
  END LOOP;
  FOR l IN 1..coalesce(cardinality(l_key), 0) LOOP
    IF made[l_change[l]] THEN
      DELETE FROM restap.lease WHERE key = l_key[l] AND holder = l_holder[l];
    END IF;
  END LOOP;
END $$;

-- A page. STABLE, so that everything in it is read in the one snapshot of the statement that calls it. The first row
-- says `last`, `oldest` and the hash of the feed that the items are of; verdict 1 is that the reader may not, 2 that
-- there are more than these.
CREATE FUNCTION restap.page(
  asked bytea, of_agent bytea, anybody boolean, caller bytea, since bigint, newest boolean, at_most bigint, query bytea,
  bytes_max bigint
) RETURNS TABLE(verdict int, ts bigint, answer boolean, json bytea, last bigint, oldest bigint, home bytea)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  f restap.feed;
  started restap.record;
  exact bigint;
  naming boolean := false;
  above bigint;
  n bigint := 0;
  bytes bigint := 0;
  r record;
BEGIN
  SELECT * INTO f FROM restap.feed WHERE hash = asked;
  verdict := 0; last := coalesce(f.last, 0); home := asked;
  oldest := CASE WHEN f.count > f.first_count THEN f.first_ts END;
  IF NOT anybody AND f.owner IS NOT NULL AND f.owner IS DISTINCT FROM caller THEN
    verdict := 1; RETURN NEXT; RETURN;
  END IF;
  IF query IS NOT NULL THEN
    SELECT * INTO started FROM restap.record WHERE hash = query AND kind = 3 AND owner = of_agent;
    naming := NOT FOUND;
    IF NOT naming THEN
      exact := coalesce(started.item_ts, 0);
      home := started.item_feed;
      SELECT * INTO f FROM restap.feed WHERE hash = started.item_feed;
      IF NOT anybody AND f.owner IS NOT NULL AND f.owner IS DISTINCT FROM caller THEN
        verdict := 1; RETURN NEXT; RETURN;
      END IF;
    END IF;
  END IF;
  RETURN NEXT;
  last := NULL; oldest := NULL; home := NULL;
  above := greatest(since, f.first_ts - 1);
  IF f.id IS NULL OR above >= f.last THEN RETURN; END IF;
  FOR r IN EXECUTE 'SELECT ts, answer, json FROM restap.item WHERE feed = $1 AND ts > $2'
    || CASE WHEN exact IS NOT NULL THEN ' AND ts = $3' ELSE '' END
    || CASE WHEN naming THEN ' AND queries @> ARRAY[$4]' ELSE '' END
    || CASE WHEN newest THEN ' ORDER BY ts DESC' ELSE ' ORDER BY ts' END || ' LIMIT $5'
    USING f.id, above, exact, query, at_most + 1
  LOOP
    n := n + 1;
    bytes := bytes + length(r.json);
    IF n > at_most OR (bytes > bytes_max AND n > 1) THEN
      verdict := 2; ts := NULL; answer := NULL; json := NULL; RETURN NEXT; RETURN;
    END IF;
    ts := r.ts; answer := r.answer; json := r.json;
    RETURN NEXT;
  END LOOP;
END $$;

-- Leases and rates are not waited for until they are on the disk: a server that dies loses what they hold apart.
CREATE FUNCTION restap.acquire(given bigint, of_key bytea, by bytea, saying bytea, term bigint)
RETURNS bytea LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  held bytea;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  LOOP
    INSERT INTO restap.lease AS x VALUES (of_key, by, saying, restap.now_ms(given) + term)
      ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, note = excluded.note, until_ms = excluded.until_ms
      WHERE x.until_ms <= restap.now_ms(given);
    IF FOUND THEN RETURN NULL; END IF;
    SELECT note INTO held FROM restap.lease WHERE key = of_key;
    IF FOUND THEN RETURN held; END IF;
  END LOOP;
END $$;

CREATE FUNCTION restap.renew(given bigint, of_key bytea, by bytea, term bigint) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE restap.lease SET until_ms = restap.now_ms(given) + term WHERE key = of_key AND holder = by;
  RETURN FOUND;
END $$;

CREATE FUNCTION restap.release(of_key bytea, by bytea) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  DELETE FROM restap.lease WHERE key = of_key AND holder = by;
END $$;

-- Counts one against a rate, by the rule of `Bucket` in src/store/rate.rs; says whether, and what is used then.
CREATE FUNCTION restap.spend(given bigint, of_key bytea, at_most bigint, period bigint, keep bigint,
  OUT allowed boolean, OUT now_used bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  now_ms bigint;
  b restap.rate;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  INSERT INTO restap.rate AS x VALUES (of_key, 0, 0, 0) ON CONFLICT (key) DO UPDATE SET used = x.used RETURNING * INTO b;
  now_ms := restap.now_ms(given);
  now_used := greatest(least(b.used, at_most * period)::numeric - greatest(now_ms - b.at_ms, 0)::numeric * at_most, 0);
  allowed := now_used + period <= at_most * period;
  IF allowed THEN now_used := now_used + period; END IF;
  UPDATE restap.rate SET used = now_used, at_ms = now_ms, full_ms = now_ms + (now_used + at_most - 1) / at_most
    WHERE key = of_key;
  -- Counting them all is dear, so that is done now and then; where few are kept, always.
  IF b.at_ms = 0 AND random() < 64.0 / keep THEN
    DELETE FROM restap.rate WHERE key IN (
      SELECT key FROM restap.rate ORDER BY full_ms
      LIMIT greatest((SELECT count(*) FROM restap.rate) - keep, 0) FOR UPDATE SKIP LOCKED);
  END IF;
END $$;

-- Wakes those who wait for items at other gateways.
CREATE FUNCTION restap.announce(marks text) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM pg_notify('restap_arrivals', marks);
END $$;

-- Retention for feeds that nobody writes, and the removal of what is out of date, a slice at a time and by one gateway
-- at a time. Returns how much there was to do.
CREATE FUNCTION restap.sweep(given bigint, agents bytea[], ages bigint[], age_default bigint, slice int)
RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  now_ms bigint;
  done bigint := 0;
  n bigint;
  c record;
  f restap.feed;
  m restap.item;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  IF NOT pg_try_advisory_xact_lock(7165074926181442931) THEN RETURN 0; END IF;
  now_ms := restap.now_ms(given);
  -- Feeds whose oldest item is too old.
  FOR c IN
    SELECT x.id, x.agent, coalesce(s.age, age_default) AS age FROM restap.feed x
      LEFT JOIN unnest(agents, ages) s(agent, age) ON s.agent = x.agent
      WHERE x.count > x.first_count AND x.first_ms + coalesce(s.age, age_default) < now_ms LIMIT slice
  LOOP
    PERFORM 1 FROM restap.agent WHERE hash = c.agent FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    SELECT * INTO f FROM restap.feed WHERE id = c.id;
    CONTINUE WHEN NOT FOUND OR f.count = f.first_count;
    SELECT * INTO m FROM restap.item WHERE feed = f.id AND ts >= f.first_ts AND received_ms + c.age >= now_ms
      ORDER BY ts LIMIT 1;
    IF NOT FOUND THEN
      m.ts := f.last + 1; m.count := f.count; m.weight := f.weight; m.received_ms := now_ms;
    END IF;
    UPDATE restap.feed SET first_ts = m.ts, first_count = m.count, first_weight = m.weight, first_ms = m.received_ms
      WHERE id = f.id;
    UPDATE restap.agent SET bytes = greatest(bytes - (m.weight - f.first_weight), 0) WHERE hash = f.agent;
    done := done + 1;
  END LOOP;
  -- Session feeds that nobody would miss.
  FOR c IN
    SELECT x.id, x.agent, coalesce(s.age, age_default) AS age FROM restap.feed x
      LEFT JOIN unnest(agents, ages) s(agent, age) ON s.agent = x.agent
      WHERE NOT x.own AND x.count = x.first_count AND x.used_ms + coalesce(s.age, age_default) < now_ms LIMIT slice
  LOOP
    PERFORM 1 FROM restap.agent WHERE hash = c.agent FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    SELECT * INTO f FROM restap.feed WHERE id = c.id;
    CONTINUE WHEN NOT FOUND OR f.count > f.first_count OR f.used_ms + c.age >= now_ms;
    PERFORM restap.drop_feed(f.id);
    done := done + 1;
  END LOOP;
  -- Items that nobody sees any more.
  FOR c IN SELECT id, agent FROM restap.feed WHERE swept < first_ts LIMIT slice LOOP
    PERFORM 1 FROM restap.agent WHERE hash = c.agent FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    SELECT * INTO f FROM restap.feed WHERE id = c.id;
    CONTINUE WHEN NOT FOUND;
    DELETE FROM restap.item WHERE (feed, ts) IN (
      SELECT feed, ts FROM restap.item WHERE feed = f.id AND ts < f.first_ts ORDER BY ts LIMIT slice);
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n < slice THEN UPDATE restap.feed SET swept = first_ts WHERE id = f.id; END IF;
    done := done + 1;
    EXIT WHEN n = slice;
  END LOOP;
  FOR c IN SELECT feed FROM restap.dropped LIMIT slice LOOP
    DELETE FROM restap.item WHERE (feed, ts) IN (
      SELECT x.feed, x.ts FROM restap.item x WHERE x.feed = c.feed ORDER BY x.ts LIMIT slice);
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n < slice THEN DELETE FROM restap.dropped WHERE feed = c.feed; END IF;
    done := done + 1;
    EXIT WHEN n = slice;
  END LOOP;
  -- Records, leases and counters whose time is over.
  FOR c IN SELECT hash, kind, owner FROM restap.record WHERE expires_ms <= now_ms LIMIT slice LOOP
    PERFORM 1 FROM restap.owner WHERE kind = c.kind AND hash = c.owner FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    DELETE FROM restap.record WHERE hash = c.hash AND kind = c.kind AND expires_ms <= now_ms
      RETURNING length(body) INTO n;
    CONTINUE WHEN NOT FOUND;
    UPDATE restap.owner SET records = records - 1, bytes = bytes - n WHERE kind = c.kind AND hash = c.owner;
    done := done + 1;
  END LOOP;
  DELETE FROM restap.owner WHERE (kind, hash) IN (
    SELECT kind, hash FROM restap.owner WHERE records = 0 LIMIT slice FOR UPDATE SKIP LOCKED);
  DELETE FROM restap.lease WHERE key IN (
    SELECT key FROM restap.lease WHERE until_ms < now_ms LIMIT slice FOR UPDATE SKIP LOCKED);
  DELETE FROM restap.rate WHERE key IN (
    SELECT key FROM restap.rate WHERE full_ms <= now_ms LIMIT slice FOR UPDATE SKIP LOCKED);
  RETURN done;
END $$;
