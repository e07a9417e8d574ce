-- Lets go of a lease. ARGV: key, holder.
local l = P .. 'l:' .. ARGV[1]
if redis.call('HGET', l, 'h') == ARGV[2] then redis.call('DEL', l) end
return 1
