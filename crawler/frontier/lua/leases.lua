-- Part of exchange.lua: who holds what; release, requeue, dead letters.
-- ---------------------------------------------------------------- leases: owner is "worker\nhost\norder\ncounted"
local function owner_of(value)
  local w, host, order, counted = string.match(value, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.)$')
  return {worker = w, host = host, order = order, counted = counted == '1'}
end

local function release(ids, owners)
  redis.call('ZREM', leases_key, unpack(ids))
  redis.call('HDEL', owners_key, unpack(ids))
  local freed = {}
  for i, owner in ipairs(owners) do
    if owner.counted then freed[owner.host] = (freed[owner.host] or 0) + 1 end
  end
  for host, n in pairs(freed) do
    if redis.call('HINCRBY', inflight_key, host, -n) <= 0 then redis.call('HDEL', inflight_key, host) end
    if redis.call('EXISTS', queue_key(host)) == 1 then wake(host) end
  end
end

local function requeue(ids, owners)
  release(ids, owners)
  for i, owner in ipairs(owners) do
    local jar = any_pins and redis.call('HGET', pins_key, ids[i])
    if not pinned_to_holder(ids[i], owner.host, owner.order, jar) then
      redis.call('ZADD', queue_key(owner.host), owner.order, ids[i])
      wake(owner.host)
    end
  end
end

local function drop(ids)
  redis.call('HDEL', requests_key, unpack(ids))
  redis.call('HDEL', deliveries_key, unpack(ids))
  if any_pins then redis.call('HDEL', pins_key, unpack(ids)) end
end

local function bury(id, owner, reason, url, deliveries, forget)
  if forget ~= '' then dedup_forget(dedup, forget) end   -- DEDUP_FORGET_FAILED: a later link tries it again
  redis.call('XADD', dead_key, 'MAXLEN', msg.dead_max, '*', 'id', id, 'reason', reason, 'url', url, 'host', owner.host,
    'worker', owner.worker, 'deliveries', deliveries, 'payload', redis.call('HGET', requests_key, id) or '',
    'jar', any_pins and redis.call('HGET', pins_key, id) or '')
end

-- Splits ids into those that this worker owns and those it lost.
local lost = {}
local function owned(ids)
  local mine, owners, place = {}, {}, {}
  if #ids == 0 then return mine, owners, place end
  local values = redis.call('HMGET', owners_key, unpack(ids))
  for i, value in ipairs(values) do
    local owner = value and owner_of(value)
    if owner and owner.worker == worker then
      mine[#mine + 1], owners[#owners + 1], place[#place + 1] = ids[i], owner, i
    else
      lost[#lost + 1] = ids[i]
    end
  end
  return mine, owners, place
end
