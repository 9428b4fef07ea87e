-- Part of exchange.lua: the pace of hosts.
--
-- A host with queued requests stands in `ready` with the time of its next turn.  `due` keeps the time for hosts that are
-- drained or busy.  `hosts` holds what is special about a host, as a msgpack map:
--   delay concurrency blocked    set by a person (scrapy frontier host)
--   crawl_delay                  from its robots.txt
--   failures failed resting      consecutive failures, when the last one was counted, until when it is left alone

local any_special = redis.call('EXISTS', hosts_key) == 1
local usual = {delay = msg.delay, concurrency = msg.concurrency}
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
    }
  end
  limits[host] = known
  return known
end

local function may_wake(host)
  if host == '' then return true end
  local limit = limits_of(host)
  if limit.blocked then return false end
  return limit.delay == 0 or tonumber(redis.call('HGET', inflight_key, host) or 0) < limit.concurrency
end

-- Hosts with queued requests come back in turn, unless they are there already, blocked, or as busy as they may be.
local function wake(hosts)
  local awake = {}
  for _, host in ipairs(hosts) do
    if may_wake(host) then awake[#awake + 1] = host end
  end
  if #awake == 0 then return end
  local turns = {}
  for i, due in ipairs(redis.call('ZMSCORE', due_key, unpack(awake))) do
    turns[2 * i - 1], turns[2 * i] = due and tonumber(due) > now and due or now_text, awake[i]
  end
  redis.call('ZADD', ready_key, 'NX', unpack(turns))
end

local function rest_until(host, when)
  redis.call('ZADD', due_key, 'GT', when, host)
  redis.call('ZADD', ready_key, 'XX', 'GT', when, host)
end

-- A lease whose request never reached the host (answered from the HTTP cache, refused by robots.txt) costs no turn.
local function refund(host)
  local due = redis.call('ZSCORE', due_key, host)
  if due then
    local when = math.max(now, due - limits_of(host).delay)
    redis.call('ZADD', due_key, 'XX', when, host)
    redis.call('ZADD', ready_key, 'XX', when, host)
  end
end

local function note_crawl_delay(host, delay)
  local record = record_of(host)
  record.crawl_delay = delay > 0 and delay or nil
  save(host, record)
end

-- `ago`: when the failed request started; those that started before the last counted failure belong to it, so that a
-- burst of concurrent failures counts once.  The first failure alone is no reason to wait, unless the host asked for it.
local function note_health(host, fine, ago, retry_after)
  local record = record_of(host)
  if fine == 1 then
    record.failures, record.failed, record.resting = nil, nil, nil
    return save(host, record)
  end
  if now - ago >= (record.failed or 0) then
    record.failures, record.failed = (record.failures or 0) + 1, now
  end
  local pause = retry_after
  if record.failures > 1 then
    pause = math.max(pause, math.max(msg.backoff, limits_of(host).delay) * 2 ^ math.min(record.failures - 2, 30))
  end
  record.resting = math.max(record.resting or 0, now + math.min(pause, msg.backoff_max))
  save(host, record)
  if msg.backoff > 0 or retry_after > 0 then rest_until(host, record.resting) end
end
