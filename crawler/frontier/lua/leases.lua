-- Part of exchange.lua: who holds what; release, requeue, dead letters.
-- ---------------------------------------------------------------- leases: owner is "worker\nhost\norder\ncounted"
local function owner_of(value)
  local w, host, order, counted = string.match(value, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.)$')
  return {worker = w, host = host, order = order, counted = counted == '1'}
end

-- `values`: the owners of the leases as they are stored. Only those of paced hosts are counted.
local function release(ids, values)
  call_with(ids, 'ZREM', leases_key)
  call_with(ids, 'HDEL', owners_key)
  local freed, woken = {}, {}
  for _, value in ipairs(values) do
    if string.sub(value, -1) == '1' then
      local host = owner_of(value).host
      freed[host] = (freed[host] or 0) + 1
    end
  end
  for host, n in pairs(freed) do
    if redis.call('HINCRBY', inflight_key, host, -n) <= 0 then redis.call('HDEL', inflight_key, host) end
    if redis.call('EXISTS', queue_key(host)) == 1 then woken[#woken + 1] = host end
  end
  wake(woken)
end

-- Puts entries (order, id, ...) into a host's queue; false when something else wrote that key (see pop).
function line_up(queue, host, entries)
  for first = 1, #entries, MANY do
    local added = redis.pcall('ZADD', queue, unpack(entries, first, math.min(first + MANY - 1, #entries)))
    if type(added) == 'table' then return stray(queue, host, entries) end
  end
  return true
end

local function lined_up(queues, hosts)   -- those whose queue is one
  local found = {}
  for _, host in ipairs(hosts) do
    if line_up(queue_key(host), host, queues[host]) then found[#found + 1] = host end
  end
  return found
end

local function requeue(ids, values)
  release(ids, values)
  local queues, hosts = {}, {}
  for i, value in ipairs(values) do
    local owner, jar = owner_of(value), any_pins and redis.call('HGET', pins_key, ids[i])
    if not pinned_to_holder(ids[i], owner.host, owner.order, jar) then
      local queue = queues[owner.host]
      if not queue then
        queue = {}
        queues[owner.host], hosts[#hosts + 1] = queue, owner.host
      end
      queue[#queue + 1], queue[#queue + 2] = owner.order, ids[i]
    end
  end
  wake(lined_up(queues, hosts))
end

local function drop(ids)
  call_with(ids, 'HDEL', requests_key)
  call_with(ids, 'HDEL', deliveries_key)
  if any_pins then call_with(ids, 'HDEL', pins_key) end
end

-- The newest FRONTIER_DEAD_MAX letters are kept, and as many more as given-up hosts had requests: those must not push
-- the others out.  What falls out is counted.
local spared = tonumber(meta.given_up or 0)
local function bury(id, value, reason, url, deliveries, forget)
  local owner = owner_of(value)
  if forget ~= '' then dedup_forget(dedup, forget) end   -- DEDUP_FORGET_FAILED: a later link tries it again
  local before = redis.call('XLEN', dead_key)
  redis.call('XADD', dead_key, 'MAXLEN', msg.dead_max + spared, '*', 'id', id, 'reason', reason, 'url', url,
    'host', owner.host, 'worker', owner.worker, 'deliveries', deliveries, 'payload', redis.call('HGET', requests_key, id) or '',
    'jar', any_pins and redis.call('HGET', pins_key, id) or '')
  local fallen = before + 1 - redis.call('XLEN', dead_key)
  if fallen > 0 then redis.call('HINCRBY', meta_key, 'dead_fallen', fallen) end
end

-- Requests of a host that is given up.
local function bury_hopeless(ids, host, reason)
  spared = redis.call('HINCRBY', meta_key, 'given_up', #ids)
  for _, id in ipairs(ids) do
    bury(id, '\n' .. host .. '\n0\n0', reason, '', redis.call('HGET', deliveries_key, id) or 0, '')
  end
  drop(ids)
end

-- What has no queue to go to, for something else wrote that key, goes to the dead letters and can be requeued.
function stray(queue, host, entries)
  misfits[#misfits + 1] = queue
  local ids, kind = {}, redis.call('TYPE', queue).ok
  for i = 2, #entries, 2 do ids[i / 2] = entries[i] end
  bury_hopeless(ids, host, queue .. ' is a ' .. kind .. ' in Redis, not a sorted set: rename or delete it, then requeue')
  return false
end

local function bury_what_is_gone()
  local queue, host = string.match(redis.call('SRANDMEMBER', gone_key), '^(.*)\n(.*)$')
  local key, ids = base .. ':gone:' .. queue, {}
  local popped = pop(key, BURIED)
  for i = 1, #popped, 2 do ids[#ids + 1] = popped[i] end
  local record = record_of(host)
  if #ids > 0 then
    bury_hopeless(ids, host, record.given_up and why_given_up(record) or 'host given up: it has answered again since')
  end
  if redis.call('EXISTS', key) == 1 then return end
  redis.call('SREM', gone_key, queue .. '\n' .. host)
  if redis.call('EXISTS', base .. ':' .. queue) == 0 then return end   -- nothing came back meanwhile
  if record.given_up then set_aside(queue, host)
  elseif queue == 'queue:' .. host then wake({host})
  else redis.call('ZADD', mine_key(string.sub(queue, 8, -#host - 2)), 'NX', now, host) end
end

-- Splits ids into those that this worker owns, with the owners as they are stored, and those it lost.
local lost = {}
local own_mark = worker .. '\n'

-- Every lease of this worker goes back, and it forgets what it holds ('*'): something that a request of its produced may be
-- gone, so none of them may be acknowledged.  They are fetched again, and nothing is lost.
local function roll_back()
  local all, ids, values = redis.call('HGETALL', owners_key), {}, {}
  for i = 1, #all, 2 do
    if string.sub(all[i + 1], 1, #own_mark) == own_mark then ids[#ids + 1], values[#values + 1] = all[i], all[i + 1] end
  end
  if #ids > 0 then requeue(ids, values) end
  lost[#lost + 1] = '*'
end

local function owned(ids)
  local mine, values, place = {}, {}, {}
  if #ids == 0 then return mine, values, place end
  local found = ask_for(ids, 'HMGET', owners_key)
  for i, value in ipairs(found) do
    if value and string.sub(value, 1, #own_mark) == own_mark then
      local n = #mine + 1
      mine[n], values[n], place[n] = ids[i], value, i
    else
      lost[#lost + 1] = ids[i]
    end
  end
  return mine, values, place
end
