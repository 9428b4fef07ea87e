-- The one exchange between a worker and a frontier shard.  Everything below happens in one step, or not at all.
--
--   KEYS   1 base of the frontier's keys    2 base of the dupefilter's keys    3 the seed key
--   ARGV   1 the message, msgpack           (fields: crawler/frontier/message.py)
--   reply  two msgpack arrays, the second of payloads   (fields: crawler/frontier/message.py)
--
-- Order of work: replay check, validation, admit, ack, give back, renew, reclaim, lease, seeds, start claim, end of run.
-- Idempotent: `replies` keeps the last number and answer of each worker; a repeated number is answered from there and
-- changes nothing.  Nothing is written before everything that can fail was checked: a script error leaves half-writes.
--
-- A server out of memory refuses a script before it does anything; then the same message comes again by the same text
-- flagged allow-oom, with `drain` set: nothing is admitted (verdict 5), the rest goes on, so that acks free memory.
--
-- The dupefilter's chunk stands in front of this file and defines dedup_open, dedup_add, dedup_add_all, dedup_forget and
-- dedup_close.
-- Keys (all in crawler/keys.py): meta runs ready queue:HOST requests leases owners deliveries inflight due workers
-- replies bye:WORKER starts locals dead hosts pages gone gone:QUEUE pins jars holders mine:WORKER pinned:WORKER:HOST.
-- Times are milliseconds of the server's clock.

local base, dedup_base, seed_key = KEYS[1], KEYS[2], KEYS[3]
local msg = cmsgpack.unpack(ARGV[1])
local worker = msg.worker
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local now_text = string.format('%.0f', now)   -- the server formats numbers more slowly than it takes texts

local LIVE = 10000      -- a worker not heard of for this long counts as dead: for the end of the run, and for its share
local GAP = math.min(5000, math.max(500, msg.lease / 2))   -- no exchange from anybody for this long: an outage, not dead workers
local GRACE = math.min(15000, msg.lease)   -- after an outage workers get this long to renew their leases
local FORGOTTEN = 3600000   -- a worker not heard of for this long is forgotten
local LOOK = 5000           -- how often the workers are looked through
local AHEAD = 100       -- a request may be handed out this long before its host is due
-- One step of priority in a queue's order; below it the age.  A score is exact up to 2^53: so is the age up to a priority
-- of 2^20 either way, and beyond that to within 2^11 requests.
local LEVEL = 2 ^ 32
local MANY = 4000       -- values that one call takes: Lua's stack has room for 8000
local FILTER, ADD, START, LOCAL = 1, 2, 4, 8   -- flags of an admission

local meta_key, ready_key, requests_key = base .. ':meta', base .. ':ready', base .. ':requests'
local leases_key, owners_key, deliveries_key = base .. ':leases', base .. ':owners', base .. ':deliveries'
local inflight_key, due_key, dead_key = base .. ':inflight', base .. ':due', base .. ':dead'
local starts_key, locals_key = base .. ':starts', base .. ':locals'
local workers_key, replies_key = base .. ':workers', base .. ':replies'
local hosts_key, pages_key = base .. ':hosts', base .. ':pages'
local gone_key = base .. ':gone'
local pins_key, jars_key, holders_key = base .. ':pins', base .. ':jars', base .. ':holders'

local function has(flags, flag) return flags % (flag * 2) >= flag end
local function queue_key(host) return base .. ':queue:' .. host end

-- redis.call with a list of any length, of values or of pairs: in several calls if need be.
local function call_with(list, command, key, option)
  for first = 1, #list, MANY do
    local last = math.min(first + MANY - 1, #list)
    if option then redis.call(command, key, option, unpack(list, first, last))
    else redis.call(command, key, unpack(list, first, last)) end
  end
end

local function ask_for(list, command, key)   -- the same for a command that answers a value for each
  if #list <= MANY then return redis.call(command, key, unpack(list)) end
  local found = {}
  for first = 1, #list, MANY do
    local part = redis.call(command, key, unpack(list, first, math.min(first + MANY - 1, #list)))
    for i = 1, #part do found[first + i - 1] = part[i] end
  end
  return found
end

-- Takes from a queue.  What something else wrote in its place is left alone and told: one key of many must not end the crawl.
local misfits = {}
local function pop(queue, n)
  local popped = redis.pcall('ZPOPMIN', queue, n)
  if not popped.err then return popped end
  misfits[#misfits + 1] = queue
  return {}
end

-- ---------------------------------------------------------------- replay of a lost reply
-- Kept is what does not change; the payloads of the leases are added each time.
local function with_payloads(packed, leases)
  local payloads = {}
  if #leases > 0 then
    local ids = {}
    for i, lease in ipairs(leases) do ids[i] = lease[1] end
    payloads = ask_for(ids, 'HMGET', requests_key)
  end
  return packed .. cmsgpack.pack(payloads)
end

-- The reply to a good-bye may be lost as well: it is kept for a while, where it ends by itself.
local function keep(reply)
  if msg.bye then redis.call('SET', base .. ':bye:' .. worker, reply, 'PX', 60000)
  else redis.call('HSET', replies_key, worker, reply) end
end

local last = redis.call('HGET', replies_key, worker) or msg.bye and redis.call('GET', base .. ':bye:' .. worker)
local mark = msg.seq .. '\n'
if last and string.sub(last, 1, #mark) == mark then
  local packed = string.sub(last, #mark + 1)
  -- Perhaps on another connection: WAIT there must not count before what was written by the first one.
  if msg.replicas > 0 then keep(last) end
  return with_payloads(packed, cmsgpack.unpack(packed)[4])
end

-- The last number is not the one before: the server lost its latest writes (power cut, failover) and stands where it
-- stood before.  What it told this worker since then never was: see roll_back in leases.lua.
local rolled_back = msg.seq > 1 and string.match(last or '', '^%d+') ~= tostring(msg.seq - 1)

local meta = {}
local META = {'run', 'state', 'name', 'start', 'start_owner', 'start_until', 'paused', 'full', 'hold', 'seen', 'last_work',
  'looked', 'silent', 'ids', 'given_up'}
for i, value in ipairs(redis.call('HMGET', meta_key, unpack(META))) do meta[META[i]] = value or nil end
if meta.run ~= msg.run then
  return cmsgpack.pack({msg.seq, now, '', {}, {}, {}, 'lost', 0, 0, 0, -1, '', 0, 0, '', 0, {}, false, {}, {}}, {})
end
local ids = tonumber(meta.ids or 0)   -- how many were ever given

local dedup, problem = dedup_open(dedup_base, msg.dedup)
if not dedup then return redis.error_reply('DEDUP ' .. problem) end

-- A key that something else wrote would end the script half-way: pages seen that stand in no queue, requests without a lease.
-- (One queue of many must not end a crawl: see line_up in leases.lua.)
local sizes = {}
for command, keys in pairs({
  HLEN = {requests_key, owners_key, deliveries_key, inflight_key, hosts_key, pages_key, locals_key, pins_key, jars_key, workers_key},
  ZCARD = {leases_key, ready_key, due_key}, SCARD = {starts_key, gone_key, holders_key}, XLEN = {dead_key}}) do
  for _, key in ipairs(keys) do sizes[key] = redis.call(command, key) end
end

-- No exchange from anybody for a while: an outage, in which nobody could renew anything.
local hold = tonumber(meta.hold or 0)
if meta.seen and now - meta.seen > GAP then
  hold = now + GRACE
  redis.call('HSET', meta_key, 'hold', hold)
end

--#include hosts

--#include pins

--#include leases

if rolled_back then roll_back() end

--#include admit

-- ---------------------------------------------------------------- 2 ack: {id, entries it needs, reason, url, forget}
local unacked, ready_acks = {}, {}
for _, ack in ipairs(msg.acks) do
  if first_full and ack[2] >= first_full then   -- its worker does not renew what it acks: done here while it waits
    unacked[#unacked + 1], msg.renew[#msg.renew + 1] = ack[1], ack[1]
  else ready_acks[#ready_acks + 1] = ack end
end
if #ready_acks > 0 then
  local ids = {}
  for i, ack in ipairs(ready_acks) do ids[i] = ack[1] end
  local mine, values, place = owned(ids)
  for i, id in ipairs(mine) do
    local ack = ready_acks[place[i]]
    if ack[3] ~= '' then
      bury(id, values[i], ack[3], ack[4], 1 + (redis.call('HGET', deliveries_key, id) or 0), ack[5])
    end
  end
  if #mine > 0 then release(mine, values); drop(mine); redis.call('HINCRBY', meta_key, 'acked', #mine) end
end
for _, one in ipairs(msg.forgets) do dedup_forget(dedup, one[2]) end
dedup_close(dedup)

-- ---------------------------------------------------------------- 3 give back what was not started, renew the rest
local state = meta.state
if #msg.gives > 0 then
  local mine, values = owned(msg.gives)
  if #mine > 0 then requeue(mine, values) end
  if msg.full and msg.bye then state = 'full' end   -- nothing is left but what would only be fetched again
end
if #msg.renew > 0 then
  local mine = owned(msg.renew)
  local deadlines = {}
  for _, id in ipairs(mine) do
    deadlines[#deadlines + 1], deadlines[#deadlines + 2] = now + msg.lease, id
  end
  call_with(deadlines, 'ZADD', leases_key, 'XX')
end
for _, start in ipairs(msg.started) do rest_until(start[1], now + start[2]) end
for i = #msg.refunds, 1, -1 do refund(msg.refunds[i][1], msg.refunds[i][2]) end   -- the last turns first
local reserved = {}
for i, host in ipairs(msg.turns) do reserved[i] = reserve(host) end
for _, news in ipairs(msg.crawl_delays) do note_crawl_delay(news[1], news[2]) end
for _, news in ipairs(msg.health) do note_health(news[1], news[2], news[3], news[4]) end

-- ---------------------------------------------------------------- 4 reclaim the leases of dead workers
if now >= hold then
  local expired = redis.call('ZRANGEBYSCORE', leases_key, '-inf', now_text, 'LIMIT', 0, 100)
  if #expired > 0 then
    local found, ids, values = redis.call('HMGET', owners_key, unpack(expired)), {}, {}
    for i, id in ipairs(expired) do
      local value = found[i] or '\n\n0\n0'
      local deliveries = redis.call('HINCRBY', deliveries_key, id, 1)
      if deliveries >= msg.max_deliveries then
        bury(id, value, 'given out ' .. deliveries .. ' times, never finished', '', deliveries, '')
        release({id}, {value}); drop({id})
      else
        ids[#ids + 1], values[#values + 1] = id, value
      end
    end
    if #ids > 0 then requeue(ids, values) end
  end
end
if any_gone then bury_what_is_gone() end
if any_pins then free_jars_of_the_dead() end
if msg.bye or msg.seq % 16 == 0 then redis.call('ZREMRANGEBYSCORE', due_key, '-inf', now_text) end   -- past turns say nothing

--#include handout

-- ---------------------------------------------------------------- 6 seeds: moved and leased in the same step
local odd_seeds = false   -- false: not looked at, '' in order, else the type of a seed key that nothing can be taken from
local function take_seeds(n)
  local kind = redis.call('TYPE', seed_key).ok
  if seed_key ~= base .. ':seeds' then odd_seeds = '' end   -- a cluster's worker looks at the seed key itself
  if kind == 'list' then
    local seeds = redis.call('LRANGE', seed_key, 0, n - 1)
    redis.call('LTRIM', seed_key, n, -1)
    return seeds
  elseif kind == 'set' then
    return redis.call('SPOP', seed_key, n)
  elseif kind == 'zset' then
    local seeds = redis.call('ZREVRANGE', seed_key, 0, n - 1)
    redis.call('ZREMRANGEBYRANK', seed_key, -n, -1)
    return seeds
  end
  if kind ~= 'none' then odd_seeds = kind end
  return {}
end

if msg.seeds > 0 and not msg.drain and state == 'running' and meta.paused ~= '1' and not meta.full and not first_full then
  local seeds = take_seeds(msg.seeds)
  if #seeds > 0 then
    ids = redis.call('HINCRBY', meta_key, 'ids', #seeds)
    local id = ids - #seeds
    local records = {}
    for _, seed in ipairs(seeds) do
      id = id + 1
      records[#records + 1], records[#records + 2] = id, 'seed:' .. seed
      grant(tostring(id), '', tostring(id), now, false)
    end
    redis.call('HSET', requests_key, unpack(records))
  end
end

if #grants > 0 then
  call_with(grants, 'ZADD', leases_key)
  call_with(holders, 'HSET', owners_key)
  if redis.call('EXISTS', deliveries_key) == 1 then
    for _, lease in ipairs(leases) do
      lease[3] = tonumber(redis.call('HGET', deliveries_key, lease[1]) or 0)
    end
  end
end

--#include run

local next_due = -1
for _, line in ipairs(any_pins and {mine_key(worker), ready_key} or {ready_key}) do
  local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')[2]
  local wait = first and math.max(0, tonumber(first) - now)
  if wait and (next_due < 0 or wait < next_due) then next_due = wait end
end

local leased = redis.call('ZCARD', leases_key)
local reply = {msg.seq, now, table.concat(verdicts), leases, lost, unacked, state, held - leased, leased,
  redis.call('XLEN', dead_key), next_due, start_state, meta.paused == '1' and 1 or 0, now - last_work,
  dedup.epoch, ids, gone_hosts, odd_seeds, reserved, misfits}
local packed = cmsgpack.pack(reply)
keep(mark .. packed)
if msg.bye then
  redis.call('HDEL', workers_key, worker)
  redis.call('HDEL', replies_key, worker)
  if meta.start_owner == worker then redis.call('HDEL', meta_key, 'start_owner', 'start_until') end
else
  redis.call('HSET', workers_key, worker, cmsgpack.pack({now, msg.busy, msg.info, msg.held, msg.finished, msg.failed}))
end
return with_payloads(packed, leases)
