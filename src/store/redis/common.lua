-- What the scripts share. All keys have one hash tag, so that on a cluster they live on one shard, where a script runs
-- alone. Hashes are hexadecimal, times unix milliseconds by the server's clock, weights bytes as retention counts them.
--
--   m             what the store is: its version, the wraps of its key
--   s             a counter: the order in which things were used
--   t             of the whole store: bytes, feeds, newest
--   as            agents, by bytes
--   a:AGENT       floor (the highest timestamp of any dropped feed), feeds, bytes
--   u:AGENT       its session feeds, in the order of their last use
--   d:AGENT       its feeds that keep items, by when the oldest was received
--   f:FEED        agent, own, owner, used, last, spent; n items; weight of all items ever, and before the oldest (fw)
--   i:FEED        its items: a stream, whose ids are the timestamps; the fields are those of ITEM below
--   x:FEED        its items that a query finds: query and timestamp, one behind the other
--   r:KIND:HASH   a record: version, body, owner, expiry, place of its item
--   o:KIND:OWNER  the records of an owner, in the order of their last use; ob: their bytes
--   e             records, by expiry
--   l:KEY         a lease: holder, note, until
--   b:KEY         a counter of a rate: used, at; bs: all of them, by when they are full
local P = '{restap}:'
local function num(n) return string.format('%.0f', n) end
local function key(ts) return string.format('%016.0f', ts) end
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
-- An item's fields in their order, as XRANGE returns them: names and values.
local JSON, WEIGHT, RECEIVED, ANSWER, QUERIES = 2, 4, 6, 8, 10
local function time_of(entry) return tonumber(string.match(entry[1], '^%d+')) end

local function count(agent, bytes, feeds)
  if bytes ~= 0 then
    redis.call('HINCRBY', P .. 'a:' .. agent, 'bytes', num(bytes))
    redis.call('HINCRBY', P .. 't', 'bytes', num(bytes))
    redis.call('ZINCRBY', P .. 'as', num(bytes), agent)
  end
  if feeds ~= 0 then
    redis.call('HINCRBY', P .. 'a:' .. agent, 'feeds', feeds)
    redis.call('HINCRBY', P .. 't', 'feeds', feeds)
  end
end

-- Drops items from the old end of a feed as long as `over(item, left, weight)` says so; the newest only if `whole`.
local function trim(feed, agent, whole, over)
  local f, i = P .. 'f:' .. feed, P .. 'i:' .. feed
  local got = redis.call('HMGET', f, 'n', 'weight', 'fw')
  local n, weight, fw = tonumber(got[1]), tonumber(got[2]), tonumber(got[3])
  local step, dropped, first = 2, 0, nil
  while n > 0 and not first do
    local entries = redis.call('XRANGE', i, '-', '+', 'COUNT', step)
    if #entries == 0 then break end
    step = 64
    local gone = 0
    for _, entry in ipairs(entries) do
      local w, received = tonumber(entry[2][WEIGHT]), tonumber(entry[2][RECEIVED])
      if (n == 1 and not whole) or not over(w, received, n, weight) then
        first = entry
        break
      end
      local queries = entry[2][QUERIES]
      for at = 1, #queries, 32 do
        redis.call('ZREM', P .. 'x:' .. feed, string.sub(queries, at, at + 31) .. key(time_of(entry)))
      end
      n = n - 1
      gone = gone + 1
    end
    if gone > 0 then
      local last = entries[gone]
      redis.call('XTRIM', i, 'MINID', num(time_of(last) + 1) .. '-0')
      dropped = dropped + gone
    end
  end
  if dropped == 0 then return false end
  local before = first and tonumber(first[2][WEIGHT]) or weight
  redis.call('HSET', f, 'n', n, 'fw', num(before))
  count(agent, fw - before, 0)
  if first then
    redis.call('ZADD', P .. 'd:' .. agent, first[2][RECEIVED], feed)
  else
    redis.call('ZREM', P .. 'd:' .. agent, feed)
  end
  return true
end

local function drop_feed(feed, agent)
  local got = redis.call('HMGET', P .. 'f:' .. feed, 'last', 'weight', 'fw')
  if not got[1] then return end
  local a = P .. 'a:' .. agent
  if tonumber(got[1]) > tonumber(redis.call('HGET', a, 'floor') or '0') then redis.call('HSET', a, 'floor', got[1]) end
  count(agent, tonumber(got[3]) - tonumber(got[2]), -1)
  redis.call('UNLINK', P .. 'f:' .. feed, P .. 'i:' .. feed, P .. 'x:' .. feed)
  redis.call('ZREM', P .. 'u:' .. agent, feed)
  redis.call('ZREM', P .. 'd:' .. agent, feed)
end

-- Drops an agent's least recently used session feed; false if there is none but the one that is written.
local function drop_idle(agent, written)
  for _, feed in ipairs(redis.call('ZRANGE', P .. 'u:' .. agent, 0, 1)) do
    if feed ~= written then
      drop_feed(feed, agent)
      return true
    end
  end
  return false
end

-- Failing that, the oldest items of its largest feed.
local function shrink(agent, written, excess)
  if drop_idle(agent, written) then return true end
  local largest, most = nil, -1
  for _, feed in ipairs(redis.call('ZRANGE', P .. 'd:' .. agent, 0, -1)) do
    local got = redis.call('HMGET', P .. 'f:' .. feed, 'n', 'weight', 'fw')
    local bytes = tonumber(got[2]) - tonumber(got[3])
    if tonumber(got[1]) > 1 and bytes > most then largest, most = feed, bytes end
  end
  if not largest then return false end
  local fw = tonumber(redis.call('HGET', P .. 'f:' .. largest, 'fw'))
  return trim(largest, agent, false, function(w) return w < fw + excess end)
end

local function drop_record(name)
  local r = P .. 'r:' .. name
  local owner = redis.call('HGET', r, 'o')
  redis.call('ZREM', P .. 'e', name)
  if not owner then return end
  local kind, hash = string.match(name, '^(%d+):(.+)$')
  local of = kind .. ':' .. owner
  redis.call('DECRBY', P .. 'ob:' .. of, redis.call('HSTRLEN', r, 'b'))
  redis.call('UNLINK', r)
  redis.call('ZREM', P .. 'o:' .. of, hash)
  if redis.call('EXISTS', P .. 'o:' .. of) == 0 then redis.call('DEL', P .. 'ob:' .. of) end
end
