-- Holds on to a lease. ARGV: the time, key, holder, term. Returns whether it was still held.
local l = P .. 'l:' .. ARGV[2]
if redis.call('HGET', l, 'h') ~= ARGV[3] then return 0 end
redis.call('HSET', l, 'u', num(clock(ARGV[1]) + ARGV[4]))
redis.call('PEXPIRE', l, 2 * ARGV[4])
return 1
