-- Reads or changes what a person says about a host (the record is described in hosts.lua).
--
--   KEYS   1 base of the frontier's keys
--   ARGV   1 host   2 changes: msgpack map; delay (ms), concurrency, blocked; false takes one back; an empty map reads
--   reply  the record, msgpack map

local base, host = KEYS[1], ARGV[1]
local hosts_key, ready_key, queue = base .. ':hosts', base .. ':ready', base .. ':queue:' .. host
local packed = redis.call('HGET', hosts_key, host)
local record = packed and cmsgpack.unpack(packed) or {}
local changes = cmsgpack.unpack(ARGV[2])
if next(changes) == nil then return cmsgpack.pack(record) end

for name, value in pairs(changes) do record[name] = value or nil end
if next(record) then redis.call('HSET', hosts_key, host, cmsgpack.pack(record))
else redis.call('HDEL', hosts_key, host) end

if record.blocked then
  redis.call('ZREM', ready_key, host)
elseif redis.call('EXISTS', queue) == 1 then   -- one that is too busy is taken out again by the next exchange
  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  redis.call('ZADD', ready_key, 'NX', math.max(now, tonumber(redis.call('ZSCORE', base .. ':due', host) or 0)), host)
end
return cmsgpack.pack(record)
