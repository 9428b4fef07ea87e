-- Joins the running run of a spider, or begins the next one.
--
--   KEYS  1 base of the frontier's keys   2 base of the dupefilter's keys (with shards: of the first one, the run's home)
--   ARGV  1 worker   2 pinned run name or ""   3 versions, "a=1 b=2"   4 "1": the new run must begin empty
--         5 "1": the caller has emptied everything (second call)   6 number of shards
--   reply {what, run number, run name, queued, leased, versions, state before, shards}
--         what: joined | begun | finished (the pinned run is) | clear (empty it, then call again) | wait (another
--         worker is emptying it) | other (an unfinished run has another name) | versions, shards (they differ)

local base, worker, pinned, versions = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local meta_key = base .. ':meta'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local CLEARING = 30000   -- a worker that began to empty the memory has this long (ms), then another may

local meta = {}
local flat = redis.call('HGETALL', meta_key)
for i = 1, #flat, 2 do meta[flat[i]] = flat[i + 1] end
local leased = redis.call('ZCARD', base .. ':leases')
local queued = redis.call('HLEN', base .. ':requests') - leased

-- The number of shards belongs to what was seen too, which other spiders may share: it is kept beside that, if not 1.
local seen, shards = KEYS[2] or base, ARGV[6] or '1'
local stored = redis.call('GET', seen .. ':shards')
if not stored and (meta.versions or redis.call('EXISTS', seen .. ':dedup:meta') == 1) then stored = '1' end

local function answer(what)
  return {what, meta.run or '0', meta.name or '', queued, leased, meta.versions or '', meta.state or '', stored or shards}
end

if stored and stored ~= shards then return answer('shards') end

if meta.versions and meta.versions ~= versions then return answer('versions') end
local unfinished = meta.state == 'running' or meta.state == 'full'
if unfinished and (pinned == '' or pinned == meta.name) then
  redis.call('HSET', meta_key, 'state', 'running')
  if meta.start == 'failed' then redis.call('HDEL', meta_key, 'start', 'start_owner', 'start_until') end  -- again
  redis.call('HDEL', meta_key, 'full')
  return answer('joined')
end
if pinned ~= '' and redis.call('HEXISTS', base .. ':runs', pinned) == 1 then
  meta.name = pinned
  return answer('finished')
end
if unfinished then return answer('other') end

if ARGV[4] == '1' and meta.run then
  local holder = meta.clearing ~= worker and meta.clearing
  if holder and now < tonumber(meta.clearing_until) then return answer('wait') end
  if ARGV[5] ~= '1' then
    redis.call('HSET', meta_key, 'clearing', worker, 'clearing_until', now + CLEARING)
    return answer('clear')
  end
end
if shards ~= '1' then redis.call('SET', seen .. ':shards', shards) end
local before = meta.state
meta.run = tostring(redis.call('HINCRBY', meta_key, 'run', 1))
meta.name = pinned ~= '' and pinned or meta.run
redis.call('HSET', meta_key, 'name', meta.name, 'state', 'running', 'began', now, 'versions', versions)
redis.call('HDEL', meta_key, 'start', 'start_owner', 'start_until', 'finished', 'clearing', 'clearing_until', 'full', 'hold', 'seen', 'last_work', 'acked')
for field in pairs(meta) do if string.sub(field, 1, 8) == 'dropped:' then redis.call('HDEL', meta_key, field) end end
redis.call('DEL', base .. ':starts', base .. ':locals', base .. ':pages')
local reply = answer('begun')
reply[7] = before or ''
return reply
