-- Adds a batch of seeds to the frontier's list, once however often it is sent (Redis Cluster, see seeds_take.lua).
--
--   KEYS   1 the list   2 zset of the batches that were added lately
--   ARGV   1 number of the batch   2.. seeds
--   reply  1 added, 0 it was there already

if redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
for i = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end   -- first: a key of a wrong type must not make a batch known
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1001)
return 1
