-- Reads a page. ARGV: feed, agent, whether anybody may, caller, since, whether the newest, limit, query, bytes at most.
-- Returns whether the reader may not, whether there is more, the feed's last timestamp, its oldest, the feed that the
-- items are of, and of each item timestamp, answer and json.
local feed, agent, anybody, caller, since = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4], ARGV[5]
local newest, limit, query, bytes_max = ARGV[6] == '1', tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9])
local function refused(owner) return not anybody and owner and owner ~= caller end

local got = redis.call('HMGET', P .. 'f:' .. feed, 'owner', 'last', 'n')
if refused(got[1]) then return {1} end
local oldest = ''
if tonumber(got[3] or '0') > 0 then
  local first = redis.call('XRANGE', P .. 'i:' .. feed, '-', '+', 'COUNT', 1)[1]
  if first then oldest = num(time_of(first)) end
end
local home, exact, naming = feed, nil, false
if query ~= '' then
  local started = redis.call('HMGET', P .. 'r:3:' .. query, 'o', 'f', 't')
  if started[1] == agent then
    home, exact = started[2], started[3]
    if refused(home ~= '' and redis.call('HGET', P .. 'f:' .. home, 'owner')) then return {1} end
  else
    naming = true
  end
end
local reply = {0, 0, got[2] or '0', oldest, home}
local i = P .. 'i:' .. home
local entries = {}
if exact then
  if exact ~= '' and (newest or tonumber(exact) > tonumber(since)) then
    entries = redis.call('XRANGE', i, exact .. '-0', exact .. '-0')
  end
elseif naming then
  local x, low, high = P .. 'x:' .. home, '(' .. query .. key(tonumber(since)), '[' .. query .. '~'
  local found = newest and redis.call('ZREVRANGEBYLEX', x, high, '[' .. query, 'LIMIT', 0, limit + 1)
    or redis.call('ZRANGEBYLEX', x, low, high, 'LIMIT', 0, limit + 1)
  for _, member in ipairs(found) do
    local at = num(tonumber(string.sub(member, 33))) .. '-0'
    entries[#entries + 1] = redis.call('XRANGE', i, at, at)[1]
  end
elseif newest then
  entries = redis.call('XREVRANGE', i, '+', '-', 'COUNT', limit + 1)
else
  entries = redis.call('XRANGE', i, '(' .. since .. '-18446744073709551615', '+', 'COUNT', limit + 1)
end
local bytes = 0
for n, entry in ipairs(entries) do
  local json = entry[2][JSON]
  bytes = bytes + #json
  if n > limit or (bytes > bytes_max and n > 1) then
    reply[2] = 1
    break
  end
  reply[#reply + 1] = num(time_of(entry))
  reply[#reply + 1] = entry[2][ANSWER]
  reply[#reply + 1] = json
end
return reply
