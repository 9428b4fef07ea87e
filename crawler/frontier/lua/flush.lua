-- Deletes keys of a frontier as long as nobody has begun a new run on it.
--
--   KEYS   1 base of the frontier's keys   2.. keys to delete
--   ARGV   1 "begin": make the run void, so that workers of the old one stop; answers its number
--            2 "1": what was seen stays, and so does which versions wrote it   3 on other shards than the run's home: the
--            number there, at which nothing is done and 0 answered if this one has it or a later one already
--            or 1 that number: delete KEYS if the run is still that one; answers 1, or 0 when a new one has begun

local meta = KEYS[1] .. ':meta'
if ARGV[1] == 'begin' then
  -- The number stays and grows: a worker of an old run must never take a later one for its own.
  local run = tonumber(redis.call('HGET', meta, 'run') or 0)
  local number = tonumber(ARGV[3] or run + 1)
  if run >= number then return 0 end
  local paused = redis.call('HGET', meta, 'paused')
  local ids = redis.call('HGET', meta, 'ids')
  local versions = ARGV[2] == '1' and redis.call('HGET', meta, 'versions')
  redis.call('DEL', meta)
  if ARGV[2] ~= '1' then redis.call('DEL', KEYS[1] .. ':shards') end
  redis.call('HSET', meta, 'run', number)
  if ids then redis.call('HSET', meta, 'ids', ids) end
  if versions then redis.call('HSET', meta, 'versions', versions) end
  if paused then redis.call('HSET', meta, 'paused', paused) end
  return number
end
if redis.call('HGET', meta, 'run') ~= ARGV[1] then return 0 end
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
