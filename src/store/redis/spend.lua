-- Counts one against a rate, by the rule of `Bucket` in src/store/rate.rs. ARGV: the time, key, count, period, counters to
-- keep. Returns whether it may happen, and what is used then.
local now, b, all = clock(ARGV[1]), P .. 'b:' .. ARGV[2], P .. 'bs'
local rate, period, keep = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local got = redis.call('HMGET', b, 'u', 't')
local used = math.min(tonumber(got[1] or '0'), rate * period)
used = math.max(used - math.max(now - tonumber(got[2] or '0'), 0) * rate, 0)
local allowed = used + period <= rate * period
if allowed then used = used + period end
local full = math.ceil(used / rate)
redis.call('HSET', b, 'u', num(used), 't', num(now))
redis.call('PEXPIRE', b, num(full + 60000))
redis.call('ZADD', all, num(now + full), ARGV[2])
redis.call('ZREMRANGEBYSCORE', all, '-inf', num(now))
local excess = redis.call('ZCARD', all) - keep
if excess > 0 then
  for _, forgotten in ipairs(redis.call('ZRANGE', all, 0, excess - 1)) do redis.call('DEL', P .. 'b:' .. forgotten) end
  redis.call('ZREMRANGEBYRANK', all, 0, excess - 1)
end
return {allowed and 1 or 0, num(used)}
