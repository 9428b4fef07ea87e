-- Part of exchange.lua: leases what is due, hosts in turn.
-- ---------------------------------------------------------------- 5 lease what is due, hosts in turn
local leases = {}
local grants, holders = {}, {}
local turns, gone = {}, {}   -- hosts with their next turn, hosts without one
local deadline = string.format('%.0f', now + msg.lease)

local function grant(id, host, order, start, counted)
  local n = #holders
  grants[n + 1], grants[n + 2] = start == now and deadline or start + msg.lease, id
  holders[n + 1], holders[n + 2] = id, worker .. '\n' .. host .. '\n' .. order .. (counted and '\n1' or '\n0')
  leases[#leases + 1] = {id, start - now, 0, host, host == '' and 0 or limits_of(host).delay,
    host ~= '' and limits_of(host).failing or false, host ~= '' and limits_of(host).own_delay or false}
end

-- Hands out up to `share` requests of a host and says when the host's next turn is.  `pinned`: of those that only this
-- worker may have; its host stays in line there while it is blocked or busy, for nobody puts it back.
local function lease_from(host, turn, share, pinned)
  local line = pinned and mine_key(worker) or ready_key
  local queue = pinned and pinned_key(worker, host) or queue_key(host)
  local limit = limits_of(host)
  local function leave()
    if pinned then redis.call('ZADD', line, now + AHEAD * 2, host) else gone[#gone + 1] = host end
  end
  if limit.blocked then return leave() end
  local start, n, paced, busy = now, share, host ~= '' and limit.counted, 0
  if paced then
    if any_pins then turn = math.max(turn, tonumber(redis.call('ZSCORE', due_key, host) or 0)) end
    start, busy = math.max(now, turn), tonumber(redis.call('HGET', inflight_key, host) or 0)
    n = math.min(n, limit.concurrency - busy)
    if limit.delay > 0 then n = math.min(n, math.floor((now + AHEAD - start) / limit.delay) + 1) end
  end
  local popped = n > 0 and pop(queue, n) or {}
  local emptied = n > 0 and #popped < 2 * n
  if any_pins and not pinned then popped = without_others_jars(popped, host) end
  for i = 1, #popped, 2 do
    grant(popped[i], host, popped[i + 1], start, paced)
    if paced then start = start + limit.delay end
  end
  if paced and #popped > 0 then
    redis.call('ZADD', due_key, 'GT', start, host)
    if pinned then redis.call('ZADD', ready_key, 'XX', 'GT', start, host) end
    busy = redis.call('HINCRBY', inflight_key, host, #popped / 2)
  end
  if emptied or redis.call('EXISTS', queue) == 0 then
    if pinned then redis.call('ZREM', line, host) else gone[#gone + 1] = host end
  elseif paced and busy >= limit.concurrency then leave()
  elseif pinned then redis.call('ZADD', line, start, host)
  else turns[#turns + 1], turns[#turns + 2] = paced and start or now_text, host end
end

local queued = redis.call('HLEN', requests_key) - redis.call('ZCARD', leases_key)
local live = redis.call('HLEN', workers_key) - tonumber(meta.silent or 0)   -- as of the last look at them
local want = math.min(msg.want, math.ceil(queued / math.max(1, live)))   -- some for all
if want > 0 and state == 'running' and meta.paused ~= '1' then
  local skip = {}
  for _, host in ipairs(msg.skip) do skip[host] = true end
  local hosts = {}
  for _, line in ipairs(any_pins and {mine_key(worker), ready_key} or {ready_key}) do
    local found = redis.call('ZRANGEBYSCORE', line, '-inf', now + AHEAD, 'WITHSCORES', 'LIMIT', 0, want + #msg.skip)
    for i = 1, #found, 2 do
      if not skip[found[i]] then hosts[#hosts + 1] = {found[i], tonumber(found[i + 1]), line ~= ready_key} end
    end
  end
  for i, host in ipairs(hosts) do
    local share = math.ceil((want - #leases) / (#hosts - i + 1))
    if share > 0 then
      lease_from(host[1], host[2], math.min(share, limits_of(host[1]).concurrency + msg.ahead), host[3])
    end
  end
  call_with(turns, 'ZADD', ready_key)
  call_with(gone, 'ZREM', ready_key)
end
