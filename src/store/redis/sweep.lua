-- Retention for feeds that nobody writes, and the removal of what is out of date, a slice at a time. ARGV: the time, the
-- slice, the age to keep where an agent has none, and of each agent its hash and age. Returns how much there was to do.
local now, slice, done = clock(ARGV[1]), tonumber(ARGV[2]), 0
local ages = {}
for at = 4, #ARGV, 2 do ages[ARGV[at]] = tonumber(ARGV[at + 1]) end
for _, agent in ipairs(redis.call('ZRANGE', P .. 'as', 0, -1)) do
  local age = ages[agent] or tonumber(ARGV[3])
  local due = redis.call('ZRANGEBYSCORE', P .. 'd:' .. agent, '-inf', '(' .. num(now - age), 'LIMIT', 0, slice)
  for _, feed in ipairs(due) do
    local left = slice
    trim(feed, agent, true, function(w, received)
      left = left - 1
      return left >= 0 and received + age < now
    end)
    done = done + 1
  end
  for _, feed in ipairs(redis.call('ZRANGE', P .. 'u:' .. agent, 0, slice - 1)) do
    local got = redis.call('HMGET', P .. 'f:' .. feed, 'used', 'n')
    if tonumber(got[1]) + age >= now then break end
    if tonumber(got[2]) == 0 then
      drop_feed(feed, agent)
      done = done + 1
    end
  end
  if done >= slice then return done end
end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', P .. 'e', '-inf', num(now), 'LIMIT', 0, slice)) do
  drop_record(name)
  done = done + 1
end
return done
