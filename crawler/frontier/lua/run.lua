-- Part of exchange.lua: who executes start(), which workers live, when the run is over.
-- ---------------------------------------------------------------- 7 start(): one worker at a time
local start_state = meta.start or ''
if start_state ~= 'done' and start_state ~= 'failed' and msg.start ~= '' then
  local other = meta.start_owner and meta.start_owner ~= worker and tonumber(meta.start_until) > now
  if other then
    start_state = 'other'
  elseif (msg.start == 'done' or msg.start == 'failed') and meta.start_owner == worker and not first_full then
    redis.call('HSET', meta_key, 'start', msg.start)
    start_state = msg.start
    ids = redis.call('HINCRBY', meta_key, 'ids', 1)   -- whoever found all shards empty before this must look again
  elseif msg.start == 'hold' and meta.start_owner ~= worker then
    start_state = 'other'
  else
    redis.call('HSET', meta_key, 'start_owner', worker, 'start_until', now + msg.lease)
    start_state = 'yours'
  end
end

-- ---------------------------------------------------------------- 8 end of the run
local function seeds_waiting()
  local kind = redis.call('TYPE', seed_key).ok
  if kind == 'list' then return redis.call('LLEN', seed_key) end
  if kind == 'set' then return redis.call('SCARD', seed_key) end
  if kind == 'zset' then return redis.call('ZCARD', seed_key) end
  return 0
end

local function somebody_busy()
  if msg.busy then return true end
  local all = redis.call('HGETALL', workers_key)
  for i = 1, #all, 2 do
    local beat = cmsgpack.unpack(all[i + 1])
    if all[i] ~= worker and beat[2] and now - beat[1] < LIVE then return true end
  end
  return false
end

-- Workers that are not heard of have no share; of those that died long ago nobody repeats the last message any more.
if now >= hold and now - tonumber(meta.looked or 0) > LOOK then
  local silent, all = 0, redis.call('HGETALL', workers_key)
  for i = 1, #all, 2 do
    local age = now - cmsgpack.unpack(all[i + 1])[1]
    if age > FORGOTTEN then
      redis.call('HDEL', workers_key, all[i])
      redis.call('HDEL', replies_key, all[i])
    elseif age > LIVE and all[i] ~= worker then silent = silent + 1 end
  end
  redis.call('HSET', meta_key, 'looked', now, 'silent', silent)
end

local held = redis.call('HLEN', requests_key)
local worked = pushed > 0 or #leases > 0 or #msg.acks > 0
local last_work = worked and now_text or meta.last_work or now_text
local function over()
  return (start_state == 'done' or start_state == 'failed') and held == 0 and not somebody_busy() and seeds_waiting() == 0
    and (not msg.fed or (msg.idle > 0 and now - last_work >= msg.idle))
end
-- finish: `decide` here (the only shard, or the home of a run), or what the home has decided: `yes`, `no`.
-- quiet: -1 the only shard, else `ids` as they were when the worker found all shards empty together (frontier/quiet.py).
if state == 'finished' and (pushed > 0 or #leases > 0 or msg.revive) then state = 'running' end
local ends = msg.finish == 'yes' or (msg.finish == 'decide' and (msg.quiet == -1 or msg.quiet == ids and not rolled_back) and over())
if state == 'running' and ends then
  state = 'finished'
  if msg.finish == 'decide' then
    redis.call('HSET', base .. ':runs', meta.name, now)
    redis.call('HSET', meta_key, 'finished', now)
  end
  redis.call('DEL', starts_key, locals_key, pages_key, pins_key, jars_key, holders_key)
end
redis.call('HSET', meta_key, 'seen', now_text, 'last_work', last_work, 'state', state)
