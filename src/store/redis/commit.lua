-- Makes one change, all of it or nothing: what can be refused is looked at first. ARGV: the time; burst; the store's
-- bytes, an agent's bytes and feeds; the feed (agent, hash, own, owner, whether there is an item, json, weight, queries,
-- answer, items, bytes and age to keep); the number of records and each (kind, hash, owner, version, body, ttl, records
-- and bytes of its owner); the leases that end, each key and holder. Returns what became of it (0 made, 1 a conflict,
-- 2 too fast) and the timestamp of the item.
local now = clock(ARGV[1])
local burst, limit_bytes, agent_bytes, agent_feeds = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local agent, feed, own, owner, has_item = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10] == '1'
local json, weight, queries, answer = ARGV[11], tonumber(ARGV[12]), ARGV[13], ARGV[14]
local items, bytes, age = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
local puts = tonumber(ARGV[18])

for p = 0, puts - 1 do
  local at = 19 + p * 8
  local got = redis.call('HMGET', P .. 'r:' .. ARGV[at] .. ':' .. ARGV[at + 1], 'v', 'e')
  local expect = tonumber(ARGV[at + 3])
  if got[1] and not (tonumber(got[1]) == expect or (expect == 0 and tonumber(got[2]) <= now)) then return {1, ''} end
end
local ts, spent, old
local f, i, a = P .. 'f:' .. feed, P .. 'i:' .. feed, P .. 'a:' .. agent
if feed ~= '' then
  old = redis.call('HMGET', f, 'last', 'spent', 'n', 'weight', 'fw')
  if has_item then
    -- The rule of `Ticker` in src/store/feed.rs.
    spent = tonumber(old[2] or '0')
    if spent > now + burst then spent = now elseif spent < now then spent = now end
    if spent == now + burst then return {2, ''} end
    local last = tonumber(old[1] or '0')
    if last == 0 then last = tonumber(redis.call('HGET', a, 'floor') or '0') end
    ts = math.max(now, last + 1)
  end
end

-- From here on things are written. The first of them is refused where memory is used up, and with it all of them.
local use = redis.call('INCR', P .. 's')
local place = {'', ''}
if feed ~= '' then
  local n, total, fw = tonumber(old[3] or '0'), tonumber(old[4] or '0'), tonumber(old[5] or '0')
  if not old[1] then
    redis.call('HSET', f, 'agent', agent, 'own', own, 'last', '0', 'spent', '0', 'n', '0', 'weight', '0', 'fw', '0')
    if owner ~= '' and own == '0' then redis.call('HSET', f, 'owner', owner) end
    redis.call('ZADD', P .. 'as', 'INCR', 0, agent)
    count(agent, 0, 1)
  end
  redis.call('HSET', f, 'used', num(now))
  if own == '0' then redis.call('ZADD', P .. 'u:' .. agent, use, feed) end
  if has_item then
    place = {feed, num(ts)}
    redis.call('XADD', i, num(ts) .. '-0', 'j', json, 'w', num(total), 'r', num(now), 'a', answer, 'q', queries)
    for at = 1, #queries, 32 do
      redis.call('ZADD', P .. 'x:' .. feed, 0, string.sub(queries, at, at + 31) .. key(ts))
    end
    if n == 0 then
      fw = total
      redis.call('ZADD', P .. 'd:' .. agent, num(now), feed)
    end
    n, total = n + 1, total + weight
    redis.call('HSET', f, 'last', num(ts), 'spent', num(spent + 1), 'n', n, 'weight', num(total), 'fw', num(fw))
    count(agent, weight, 0)
    if ts > tonumber(redis.call('HGET', P .. 't', 'newest') or '0') then redis.call('HSET', P .. 't', 'newest', num(ts)) end
    local first = tonumber(redis.call('ZSCORE', P .. 'd:' .. agent, feed))
    if n > items or total - fw > bytes or first + age < now then
      trim(feed, agent, false, function(w, received, left, all)
        return left > items or all - w > bytes or received + age < now
      end)
    end
  end
  while tonumber(redis.call('HGET', a, 'feeds') or '0') > agent_feeds and drop_idle(agent, feed) do end
  while true do
    local over = tonumber(redis.call('HGET', a, 'bytes') or '0') - agent_bytes
    if over <= 0 or not shrink(agent, feed, over) then break end
  end
  while limit_bytes do
    local over = tonumber(redis.call('HGET', P .. 't', 'bytes') or '0') - limit_bytes
    if over <= 0 then break end
    if not shrink(redis.call('ZREVRANGE', P .. 'as', 0, 0)[1], feed, over) then break end
  end
end

for p = 0, puts - 1 do
  local at = 19 + p * 8
  local kind, hash, whose, expect, body = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4]
  local expires = now + tonumber(ARGV[at + 5])
  local name = kind .. ':' .. hash
  local of = kind .. ':' .. whose
  local had = redis.call('HGET', P .. 'r:' .. name, 'v')
  local version = tonumber(had or expect) + 1
  redis.call('INCRBY', P .. 'ob:' .. of, #body - redis.call('HSTRLEN', P .. 'r:' .. name, 'b'))
  redis.call('HSET', P .. 'r:' .. name, 'v', version, 'b', body, 'o', whose, 'e', num(expires), 'f', place[1], 't', place[2])
  redis.call('ZADD', P .. 'o:' .. of, redis.call('INCR', P .. 's'), hash)
  redis.call('ZADD', P .. 'e', num(expires), name)
  while redis.call('ZCARD', P .. 'o:' .. of) > tonumber(ARGV[at + 6])
      or tonumber(redis.call('GET', P .. 'ob:' .. of) or '0') > tonumber(ARGV[at + 7]) do
    local oldest = redis.call('ZRANGE', P .. 'o:' .. of, 0, 0)[1]
    if not oldest then break end
    drop_record(kind .. ':' .. oldest)
  end
end

for at = 19 + puts * 8, #ARGV, 2 do
  local l = P .. 'l:' .. ARGV[at]
  if redis.call('HGET', l, 'h') == ARGV[at + 1] then redis.call('DEL', l) end
end
if ts then redis.call('PUBLISH', P .. 'arrivals', string.sub(feed, 1, 2)) end
return {0, place[2]}
