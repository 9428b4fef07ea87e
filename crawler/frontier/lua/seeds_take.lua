-- Sets a batch of seeds aside, on Redis Cluster, where the frontier's keys are in another slot.
--
--   KEYS   1 the seed key (list, set or sorted set)   2 where the batch stands (hash: number, seeds)
--   ARGV   1 how many at most; or "done" and 2 the number of a batch that the frontier has
--   reply  {number of the batch, seed, ...}: the one that stands aside already, or a new one; {} when no seed waits;
--          {"more"} when some wait, but none was asked for; {"odd", type} when the key is of no type for seeds

local seed_key, aside = KEYS[1], KEYS[2]
if ARGV[1] == 'done' then
  if redis.call('HGET', aside, 'number') == ARGV[2] then redis.call('DEL', aside) end
  return {}
end

local function answer(number, seeds)
  local reply = {number}
  for i, seed in ipairs(seeds) do reply[i + 1] = seed end
  return reply
end

local number = redis.call('HGET', aside, 'number')
if number then return answer(number, cmsgpack.unpack(redis.call('HGET', aside, 'seeds'))) end

local kind, n, seeds = redis.call('TYPE', seed_key).ok, tonumber(ARGV[1]), {}
if kind == 'none' then return {} end
if kind ~= 'list' and kind ~= 'set' and kind ~= 'zset' then return {'odd', kind} end
if n == 0 then return {'more'} end
if kind == 'list' then
  seeds = redis.call('LRANGE', seed_key, 0, n - 1)
  redis.call('LTRIM', seed_key, n, -1)
elseif kind == 'set' then
  seeds = redis.call('SPOP', seed_key, n)
else
  seeds = redis.call('ZREVRANGE', seed_key, 0, n - 1)
  redis.call('ZREMRANGEBYRANK', seed_key, -n, -1)
end
local time = redis.call('TIME')
number = time[1] .. '.' .. time[2]
redis.call('HSET', aside, 'number', number, 'seeds', cmsgpack.pack(seeds))
return answer(number, seeds)
