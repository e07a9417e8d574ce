-- Takes a lease. ARGV: the time, key, holder, note, term. Returns the note of who holds it.
local now, l = clock(ARGV[1]), P .. 'l:' .. ARGV[2]
local got = redis.call('HMGET', l, 'n', 'u')
if got[1] and tonumber(got[2]) > now then return got[1] end
redis.call('HSET', l, 'h', ARGV[3], 'n', ARGV[4], 'u', num(now + ARGV[5]))
-- Nobody has to remove it.
redis.call('PEXPIRE', l, 2 * ARGV[5])
return false
