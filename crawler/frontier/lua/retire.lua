-- Claims the emptying of a finished run's memory (SCHEDULER_PERSIST=0), or ends that claim.
--
--   KEYS  1 base of the frontier's keys
--   ARGV  1 worker   2 run number   3 "1": emptied, end the claim
--   reply 1 when the caller is to empty it (or has), 0 when the run is not finished, is another, or somebody else does
--
-- While the claim stands no new run begins (join.lua answers "wait"): a closing worker never empties the next crawl.

local meta_key, worker = KEYS[1] .. ':meta', ARGV[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local meta = redis.call('HMGET', meta_key, 'run', 'state', 'clearing', 'clearing_until', 'retired')

if meta[3] == worker and ARGV[3] == '1' then
  redis.call('HDEL', meta_key, 'clearing', 'clearing_until')
  redis.call('HSET', meta_key, 'retired', ARGV[2])
  return 1
end
local claimed = meta[3] and meta[3] ~= worker and now < tonumber(meta[4])
if meta[1] ~= ARGV[2] or meta[2] ~= 'finished' or meta[5] == ARGV[2] or claimed then return 0 end
redis.call('HSET', meta_key, 'clearing', worker, 'clearing_until', now + 30000)
return 1
