-- Part of exchange.lua: dedup and push in one step.
-- ---------------------------------------------------------------- 1 admit: dedup and push in one step
-- The outbox comes in columns (message.py): what was seen before, most of it, is never unpacked here.
local host_names, rows, items, texts, jars, calendars, dead, plain = unpack(msg.outbox)
local count = items and #items or 0
local verdicts, first_full, pushed = {}, nil, 0

-- → place of the host, flags, priority, where the fingerprint begins, where the payload begins and ends
local function row(i) return struct.unpack('>HBdIII', rows, 23 * i - 22) end
local function flags_of(i) return string.byte(rows, 23 * i - 20) end

local function fingerprint_of(i)
  local _, _, _, first, middle = row(i)
  return string.sub(texts, first, middle - 1)
end

-- What is seen, unless only a worker that died could have run it: then it is new again (1). While that worker lives the
-- answer may change (3), so nobody may remember it.
local any_local = sizes[locals_key] > 0
local function seen(i)
  local fingerprint = any_local and fingerprint_of(i)
  local holder = fingerprint and redis.call('HGET', locals_key, fingerprint)
  if not holder or holder == worker then return '0' end
  local beat = redis.call('HGET', workers_key, holder)
  if beat and now - cmsgpack.unpack(beat)[1] <= math.min(LIVE, msg.lease / 2) then return '3' end   -- its parent comes back after 2/3
  redis.call('HDEL', locals_key, fingerprint)
  return '1'
end

-- The dupefilter's answer to entry i (1 new, 0 seen, -1 full) as a verdict.
local function verdict_for(i, answer)
  if answer == 1 then return '1' end
  if answer == -1 then
    first_full = i
    return '2'
  end
  return has(flags_of(i), FILTER) and seen(i) or '1'
end

-- A host that has had its share of pages (FRONTIER_HOST_MAX_PAGES) gets no more; dont_filter means "in spite of all".
local pages = {}
local function over_cap(host, flags)
  if msg.host_max_pages == 0 then return false end
  if not pages[host] then pages[host] = tonumber(redis.call('HGET', pages_key, host) or 0) end
  return has(flags, FILTER) and pages[host] >= msg.host_max_pages
end

-- A calendar that goes on for ever (crawler/frontier/traps.py) gets no more either.
local function endless(calendar, flags)
  if not pages[calendar] then pages[calendar] = tonumber(redis.call('HGET', pages_key, calendar) or 0) end
  return has(flags, FILTER) and pages[calendar] >= msg.calendar_max
end

local function judge(i)
  local place, flags = row(i)
  local host, fingerprint = host_names[place], has(flags, START) and fingerprint_of(i)
  local calendar = calendars[i]
  if over_cap(host, flags) then return '4' end
  if calendar and endless(calendar, flags) then return '6' end
  if fingerprint and redis.call('SISMEMBER', starts_key, fingerprint) == 1 then return '0' end
  local verdict = has(flags, ADD) and verdict_for(i, dedup_add(dedup, items[i])) or '1'
  if verdict == '1' then
    if fingerprint then redis.call('SADD', starts_key, fingerprint) end
    if pages[host] and not has(flags, LOCAL) then pages[host] = pages[host] + 1 end
    if calendar then pages[calendar] = pages[calendar] + 1 end
  end
  return verdict
end

local function judge_one_by_one()
  for i = 1, count do verdicts[i] = first_full and '2' or judge(i) end
  for host, n in pairs(pages) do redis.call('HSET', pages_key, host, n) end
end

-- The same for links that are all to be added and filtered: one question to the dupefilter.
local function judge_at_once()
  local answers = dedup_add_all(dedup, items)
  for i = 1, count do
    local answer = answers[i]
    if first_full then verdicts[i] = '2'
    elseif answer == 1 then verdicts[i] = '1'
    elseif answer == 0 then verdicts[i] = any_local and seen(i) or '0'
    else first_full, verdicts[i] = i, '2' end
  end
end

local function order_of(priority, id, id_text)
  if msg.order == 'lifo' then return '-' .. id_text end
  if msg.order == 'fifo' or priority == 0 then return id_text end
  return -priority * LEVEL + id
end

local function push_new()
  ids = redis.call('HINCRBY', meta_key, 'ids', count)
  local last_id = ids - count
  local records, queues, hosts, pinned, buried, letters = {}, {}, {}, {}, {}, {}
  for i = 1, count do
    if verdicts[i] == '1' then
      local place, flags, priority, _, middle, last = row(i)
      if has(flags, LOCAL) then
        redis.call('HSET', locals_key, fingerprint_of(i), worker)
      else
        pushed = pushed + 1
        local id, host = last_id + i, host_names[place]
        local id_text, queue = tostring(id), queues[host]
        records[2 * pushed - 1], records[2 * pushed] = id_text, string.sub(texts, middle, last)
        local order, jar, holder = order_of(priority, id, id_text), jars[i], nil
        if jar then
          redis.call('HSET', pins_key, id_text, jar)
          any_pins, holder = true, holder_of(jar)
        end
        local reason = any_special and limits_of(host).given_up and hopeless(host)
        if dead[i] then letters[id_text] = {host, dead[i][1], dead[i][2]}
        elseif reason then
          buried[#buried + 1] = {id_text, host, reason}
        elseif holder then
          pinned[#pinned + 1] = {holder, host, order, id_text}
        else
          if not queue then
            queue = {}
            queues[host], hosts[#hosts + 1] = queue, host
          end
          local n = #queue
          queue[n + 1], queue[n + 2] = order, id_text
        end
      end
    end
  end
  if pushed == 0 then return end
  redis.call('HSET', requests_key, unpack(records))
  for id, letter in pairs(letters) do   -- its worker could not queue it: the user's fingerprinter failed, ...
    bury(id, own_mark .. letter[1] .. '\n0\n0', letter[2], letter[3], 0, '')
    drop({id})
  end
  for _, one in ipairs(buried) do bury_hopeless({one[1]}, one[2], one[3]) end
  for _, one in ipairs(pinned) do pin(unpack(one)) end
  wake(lined_up(queues, hosts))
end

if count > 0 and msg.drain then
  for i = 1, count do verdicts[i] = '5' end
  first_full = 1
elseif count > 0 then
  if plain and msg.host_max_pages == 0 then judge_at_once() else judge_one_by_one() end
  push_new()
  if first_full then redis.call('HSET', meta_key, 'full', 1) end
end
for reason, n in pairs(msg.dropped) do redis.call('HINCRBY', meta_key, 'dropped:' .. reason, n) end
call_with(msg.locals, 'HDEL', locals_key)
