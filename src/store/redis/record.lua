-- Reads a record. ARGV: the time, its name. Returns version, body, place of its item, whether its time is over.
local got = redis.call('HMGET', P .. 'r:' .. ARGV[2], 'v', 'b', 'f', 't', 'e')
if not got[1] then return {} end
return {got[1], got[2], got[3], got[4], tonumber(got[5]) <= clock(ARGV[1]) and '1' or '0'}
