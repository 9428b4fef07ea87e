-- Puts dead letters back into their hosts' queues: each is taken off the dead letters in the same step, so that it is
-- in one place whatever happens. A letter that is gone already (another operator was faster) is left alone.
--
--   KEYS   1 base of the frontier's keys
--   ARGV   1 order: priority, fifo or lifo    then per letter: 2 entry id   3 host   4 priority   5 payload   6 jar
--   reply  number of requests queued

local base = KEYS[1]
local LEVEL = 2 ^ 32   -- as in exchange.lua
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function order_of(priority, id)
  if ARGV[1] == 'fifo' then return id end
  if ARGV[1] == 'lifo' then return -id end
  return -priority * LEVEL + id
end

-- A key of a wrong type ends it before anything is written: no letter is taken off that stands nowhere else.
for command, names in pairs({HLEN = {'meta', 'requests', 'pins'}, ZCARD = {'ready', 'due'}}) do
  for _, name in ipairs(names) do redis.call(command, base .. ':' .. name) end
end
for i = 3, #ARGV, 5 do redis.call('ZCARD', base .. ':queue:' .. ARGV[i]) end

local queued = 0
for i = 2, #ARGV, 5 do
  local host = ARGV[i + 1]
  if redis.call('XDEL', base .. ':dead', ARGV[i]) == 1 then
    local id = redis.call('HINCRBY', base .. ':meta', 'ids', 1)
    redis.call('HSET', base .. ':requests', id, ARGV[i + 3])
    if ARGV[i + 4] ~= '' then redis.call('HSET', base .. ':pins', id, ARGV[i + 4]) end
    redis.call('ZADD', base .. ':queue:' .. host, order_of(tonumber(ARGV[i + 2]), id), id)
    -- A host that is as busy as it may be is taken out again by the next exchange that looks at it.
    local due = tonumber(redis.call('ZSCORE', base .. ':due', host) or 0)
    redis.call('ZADD', base .. ':ready', 'NX', math.max(now, due), host)
    queued = queued + 1
  end
end
return queued
