-- Part of exchange.lua: dedup and push in one step.
-- ---------------------------------------------------------------- 1 admit: dedup and push in one step
local verdicts, first_full, pushed = {}, nil, 0
if msg.drain and #msg.outbox > 0 then
  for i = 1, #msg.outbox do verdicts[i] = 5 end
  first_full = 1
end

-- What is seen, unless only a worker that died could have run it: then it is new again (1). While that worker lives the
-- answer may change (3), so nobody may remember it.
local any_local = redis.call('EXISTS', locals_key) == 1
local function seen(fingerprint)
  local holder = any_local and redis.call('HGET', locals_key, fingerprint)
  if not holder or holder == worker then return 0 end
  local beat = redis.call('HGET', workers_key, holder)
  if beat and now - cmsgpack.unpack(beat)[1] <= LIVE then return 3 end
  redis.call('HDEL', locals_key, fingerprint)
  return 1
end

-- A host that has had its share of pages (FRONTIER_HOST_MAX_PAGES) gets no more; dont_filter means "in spite of all".
local pages = {}
local function over_cap(host, flags)
  if msg.host_max_pages == 0 then return false end
  if not pages[host] then pages[host] = tonumber(redis.call('HGET', pages_key, host) or 0) end
  return has(flags, FILTER) and pages[host] >= msg.host_max_pages
end

-- The dupefilter is asked for the whole batch at once, which costs it less, unless what comes before an entry can decide
-- that it is not asked at all: a start request in the batch, or a cap of its host. Where it is full nothing is recorded
-- any more, so what it says of later entries changes nothing.
local function ask_all()
  local items = {}
  for _, entry in ipairs(msg.outbox) do
    if has(entry[2], START) then return nil end
    if has(entry[2], ADD) then items[#items + 1] = entry[3] end
  end
  return dedup_add_all(dedup, items)
end

local answers, asked = msg.host_max_pages == 0 and not msg.drain and ask_all(), 0
local function add(item)
  if not answers then return dedup_add(dedup, item) end
  asked = asked + 1
  return answers[asked]
end

local function verdict_of(entry)
  local flags, item, fingerprint = entry[2], entry[3], entry[4]
  if over_cap(entry[1], flags) then return 4 end
  if has(flags, START) and redis.call('SISMEMBER', starts_key, fingerprint) == 1 then return 0 end
  if has(flags, ADD) then
    local new = add(item)
    if new == -1 then return 2 end
    if new == 0 and has(flags, FILTER) then
      local verdict = seen(fingerprint)
      if verdict ~= 1 then return verdict end
    end
  end
  if has(flags, START) then redis.call('SADD', starts_key, fingerprint) end
  return 1
end

local function order_of(priority, id)
  if msg.order == 'fifo' then return id end
  if msg.order == 'lifo' then return -id end
  return -priority * LEVEL + id
end

if #msg.outbox > 0 and not msg.drain then
  local next_id = redis.call('HINCRBY', meta_key, 'ids', #msg.outbox) - #msg.outbox
  local records, queues = {}, {}
  for i, entry in ipairs(msg.outbox) do
    local host, flags = entry[1], entry[2]
    local verdict = first_full and 2 or verdict_of(entry)
    if verdict == 2 then first_full = first_full or i end
    verdicts[i] = verdict
    if verdict == 1 and has(flags, LOCAL) then
      redis.call('HSET', locals_key, entry[4], worker)
    elseif verdict == 1 then
      local id = next_id + i
      records[#records + 1], records[#records + 2] = id, entry[6]
      local jar = entry[7] and entry[7].jar
      if jar then redis.call('HSET', pins_key, id, jar); any_pins = true end
      if not pinned_to_holder(id, host, order_of(entry[5], id), jar) then
        local queue = queues[host]
        if not queue then queue = {}; queues[host] = queue end
        queue[#queue + 1], queue[#queue + 2] = order_of(entry[5], id), id
      end
      if pages[host] then pages[host] = pages[host] + 1 end
      pushed = pushed + 1
    end
  end
  if pushed > 0 then redis.call('HSET', requests_key, unpack(records)) end
  for host, queue in pairs(queues) do
    redis.call('ZADD', queue_key(host), unpack(queue))
    wake(host)
  end
  for host, n in pairs(pages) do redis.call('HSET', pages_key, host, n) end
  if first_full then redis.call('HSET', meta_key, 'full', 1) end
end
if #msg.locals > 0 then redis.call('HDEL', locals_key, unpack(msg.locals)) end
