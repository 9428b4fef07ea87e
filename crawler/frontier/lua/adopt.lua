-- Makes the run that its home shard began or joined the run of another shard as well.
--
--   KEYS  1 base of the frontier's keys
--   ARGV  1 run number   2 run name   3 versions
--   reply the number of the shard's run: a higher one than the caller's is left alone (numbers only grow)

local base, number = KEYS[1], tonumber(ARGV[1])
local meta_key = base .. ':meta'
local run = tonumber(redis.call('HGET', meta_key, 'run') or 0)
if run > number then return run end
if run < number then
  redis.call('HDEL', meta_key, 'hold', 'seen', 'last_work', 'acked', 'finished')
  redis.call('DEL', base .. ':starts', base .. ':locals', base .. ':pages')
end
redis.call('HSET', meta_key, 'run', number, 'name', ARGV[2], 'state', 'running', 'versions', ARGV[3])
redis.call('HDEL', meta_key, 'full')
return number
