-- Part of exchange.lua: cookie jars pinned to the worker that holds them (FRONTIER_PIN_COOKIEJARS).
--
-- A request of a jar that nobody holds waits in its host's queue like any other.  The worker that leases the first one
-- holds the jar; the jar's others then wait in pinned:WORKER:HOST, which only that worker is given.  `mine:WORKER` is to
-- those queues what `ready` is to the hosts'; a host's pace (due, inflight) is one for all of them.
--   pins     request id -> jar        jars   jar -> worker that holds it      holders   workers that have pinned queues
-- The jars of a worker that left, or was not heard of for a lease, are free: its queues go back to the hosts' bit by bit,
-- and who leases the first request of a jar then holds it, and all that follow.

local FREED = 200   -- requests of a dead worker that go back in one exchange
local any_pins = sizes[pins_key] > 0
local line_up, stray   -- in leases.lua

local function mine_key(name) return base .. ':mine:' .. name end
local function pinned_key(name, host) return base .. ':pinned:' .. name .. ':' .. host end

if any_pins then redis.call('ZCARD', mine_key(worker)) end   -- of a wrong type: nothing is written yet

local lives = {[worker] = true}
local function alive(name)
  if lives[name] == nil then
    local beat = redis.call('HGET', workers_key, name)
    lives[name] = beat and (now < hold or now - cmsgpack.unpack(beat)[1] <= msg.lease) or false
  end
  return lives[name]
end

local function holder_of(jar)
  local holder = redis.call('HGET', jars_key, jar)
  return holder and alive(holder) and holder
end

local function pin(holder, host, order, id)
  local due = tonumber(redis.call('ZSCORE', due_key, host) or 0)
  local mine = mine_key(holder)
  local added = redis.pcall('ZADD', mine, 'NX', math.max(now, due), host)
  if type(added) == 'table' then return stray(mine, host, {order, id}) end
  if line_up(pinned_key(holder, host), host, {order, id}) then redis.call('SADD', holders_key, holder) end
end

-- Where a request belongs that is queued: true when it went to the worker that holds its jar.
local function pinned_to_holder(id, host, order, jar)
  local holder = jar and holder_of(jar)
  if holder then pin(holder, host, order, id) end
  return holder
end

-- Of what was taken out of a host's queue (id, order, ...) what this worker may have; it holds those jars from now on.
local function without_others_jars(popped, host)
  if #popped == 0 then return popped end
  local ids, kept = {}, {}
  for i = 1, #popped, 2 do ids[#ids + 1] = popped[i] end
  local jars = ask_for(ids, 'HMGET', pins_key)
  for i, id in ipairs(ids) do
    local holder = jars[i] and holder_of(jars[i])
    if holder and holder ~= worker then
      pin(holder, host, popped[2 * i], id)
    else
      if jars[i] and not holder then redis.call('HSET', jars_key, jars[i], worker) end
      kept[#kept + 1], kept[#kept + 2] = id, popped[2 * i]
    end
  end
  return kept
end

local function free_jars_of_the_dead()
  for _, name in ipairs(redis.call('SMEMBERS', holders_key)) do
    local host = not alive(name) and redis.call('ZRANGE', mine_key(name), 0, 0)[1]
    if host then
      local freed, queue = pop(pinned_key(name, host), FREED), {}
      for i = 1, #freed, 2 do queue[i], queue[i + 1] = freed[i + 1], freed[i] end
      if #queue > 0 and line_up(queue_key(host), host, queue) then wake({host}) end
      if #freed < 2 * FREED then redis.call('ZREM', mine_key(name), host) end
    elseif not alive(name) then
      redis.call('SREM', holders_key, name)
    end
  end
end
