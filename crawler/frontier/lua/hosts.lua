-- Part of exchange.lua: the pace of hosts.
--
-- A host with queued requests stands in `ready` with the time of its next turn.  `due` keeps the time for hosts that are
-- drained or busy.  `hosts` holds what is special about a host, as a msgpack map:
--   delay concurrency blocked    set by a person (scrapy frontier host)
--   crawl_delay                  from its robots.txt
--   failures first failed        consecutive failures, when the first and the last one were counted
--   resting                      until when it is left alone
--   given_up                     since when what is queued for it goes to the dead letters (see below)

local any_special = sizes[hosts_key] > 0
local usual = {delay = msg.delay, concurrency = msg.concurrency, counted = msg.delay > 0}
local limits = {}

local function record_of(host)
  local packed = any_special and redis.call('HGET', hosts_key, host)
  return packed and cmsgpack.unpack(packed) or {}
end

local function save(host, record)
  limits[host], any_special = nil, true
  if next(record) then redis.call('HSET', hosts_key, host, cmsgpack.pack(record))
  else redis.call('HDEL', hosts_key, host) end
end

local function limits_of(host)
  local known = limits[host]
  if known then return known end
  local own, record = msg.hosts[host], any_special and record_of(host)
  known = usual
  if own or record and next(record) then
    record = record or {}
    local delay, concurrency = own and own[1] or msg.delay, own and own[2] or msg.concurrency
    known = {
      delay = record.delay or math.max(delay, record.crawl_delay or 0),
      concurrency = record.concurrency or concurrency,
      blocked = record.blocked,
      given_up = record.given_up,
      failing = record.failures and true or false,
      own_delay = record.delay and true or false,
    }
    known.counted = known.delay > 0 or record.concurrency or concurrency ~= msg.concurrency
  end
  limits[host] = known
  return known
end

local function may_wake(host)
  if host == '' then return true end
  local limit = limits_of(host)
  if limit.blocked then return false end
  return not limit.counted or tonumber(redis.call('HGET', inflight_key, host) or 0) < limit.concurrency
end

-- Hosts with queued requests come back in turn, unless they are there already, blocked, or as busy as they may be.
local function wake(hosts)
  local awake = {}
  for _, host in ipairs(hosts) do
    if may_wake(host) then awake[#awake + 1] = host end
  end
  if #awake == 0 then return end
  local turns = {}
  for i, due in ipairs(ask_for(awake, 'ZMSCORE', due_key)) do
    turns[2 * i - 1], turns[2 * i] = due and tonumber(due) > now and due or now_text, awake[i]
  end
  call_with(turns, 'ZADD', ready_key, 'NX')
end

local function rest_until(host, when)
  redis.call('ZADD', due_key, 'GT', when, host)
  redis.call('ZADD', ready_key, 'XX', 'GT', when, host)
end

-- What has no lease that says when (media, a page that robots.txt held up) asks for the host's next turn.
local function reserve(host)
  local start = math.max(now, tonumber(redis.call('ZSCORE', due_key, host) or 0))
  rest_until(host, start + limits_of(host).delay)
  return {host, start - now}
end

-- A lease whose request never reached the host (answered from the HTTP cache, refused by robots.txt) costs no turn, if it was
-- the last one: a later one is somebody's, and a rest that the host asked for is none.  `ago`: when it was to start.
local function refund(host, ago)
  local due, delay = redis.call('ZSCORE', due_key, host), limits_of(host).delay
  if due and due - delay <= now - ago + delay / 2 then
    local when = math.max(now, due - delay)
    redis.call('ZADD', due_key, 'XX', when, host)
    redis.call('ZADD', ready_key, 'XX', when, host)
  end
end

local function note_crawl_delay(host, delay)
  local record = record_of(host)
  record.crawl_delay = delay > 0 and delay or nil
  save(host, record)
end

-- ---------------------------------------------------------------- hosts that are given up
-- A host that failed for long (FRONTIER_HOST_GIVE_UP), HOPELESS times in a row at least: its queue is set aside in one
-- step (gone:QUEUE, named in the set `gone`) and buried bit by bit.  From then on a new link to it is buried at once, but
-- for one now and then that tries whether the host is back; any answer ends it.
local HOPELESS = 5
local BURIED = 200   -- dead letters of given-up hosts per exchange
local gone_hosts, any_gone = {}, sizes[gone_key] > 0

local function set_aside(queue, host)
  if redis.call('EXISTS', base .. ':gone:' .. queue) == 0 and redis.call('TYPE', base .. ':' .. queue).ok == 'zset' then
    any_gone = true
    redis.call('RENAME', base .. ':' .. queue, base .. ':gone:' .. queue)
    redis.call('SADD', gone_key, queue .. '\n' .. host)
  end
end

local function give_up(host, record)
  if not record.given_up then
    record.given_up = now
    redis.call('HINCRBY', meta_key, 'hosts_given_up', 1)
    gone_hosts[#gone_hosts + 1] = host
  end
  set_aside('queue:' .. host, host)
  redis.call('ZREM', ready_key, host)
  for _, name in ipairs(redis.call('SMEMBERS', holders_key)) do
    set_aside('pinned:' .. name .. ':' .. host, host)
    redis.call('ZREM', base .. ':mine:' .. name, host)
  end
end

local function why_given_up(record)
  return string.format('host given up: no answer for %d s, %d times in a row', (now - record.first) / 1000, record.failures)
end

-- The reason to bury a new request of a host, or false.  One is let through when the host has rested long enough.
local function hopeless(host)
  local record = any_special and host ~= '' and record_of(host)
  if not record or not record.given_up then return false end
  if now < (record.resting or 0) or redis.call('EXISTS', queue_key(host)) == 1 then return why_given_up(record) end
  record.resting = now + msg.backoff_max
  save(host, record)
  return false
end

-- `ago`: when the failed request started; those that started before the last counted failure belong to it, so that a
-- burst of concurrent failures counts once.  The first failure alone is no reason to wait, unless the host asked for it.
local function note_health(host, fine, ago, retry_after)
  local record = record_of(host)
  if fine == 1 then
    if record.given_up then redis.call('HINCRBY', meta_key, 'hosts_given_up', -1) end
    record.failures, record.first, record.failed, record.resting, record.given_up = nil, nil, nil, nil, nil
    return save(host, record)
  end
  if now - ago >= (record.failed or 0) then
    record.failures, record.first, record.failed = (record.failures or 0) + 1, record.first or now, now
  end
  local pause = retry_after
  if record.failures > 1 then
    pause = math.max(pause, math.max(msg.backoff, limits_of(host).delay) * 2 ^ math.min(record.failures - 2, 30))
  end
  record.resting = math.max(record.resting or 0, now + math.min(pause, msg.backoff_max))
  if msg.give_up > 0 and record.failures >= HOPELESS and now - record.first >= msg.give_up then give_up(host, record) end
  save(host, record)
  if msg.backoff > 0 or retry_after > 0 then rest_until(host, record.resting) end
end
