-- A Bloom filter of the server's own (BF.*: Redis 8, valkey-bloom, RedisBloom), which grows by itself.
--
-- Constants in front: ERROR (text), CAPACITY elements as configured, RESERVE elements of the first layer, LIMIT elements
--   in all, 0: no limit
-- Metadata:  error_rate, capacity, count
-- Key:       BASE:dedup:ID:filter  the server's filter; the item is the fingerprint

local MOST = 1000 -- elements of a call: as many as the stack of a Lua call surely holds

local function open(base, _, expires)
  local state, m, problem = open_meta(base, "native", expires, "error_rate", "capacity", "count")
  if not state then return nil, problem end
  state.key, state.capacity, state.count, state.missing = state.prefix .. "filter", CAPACITY, 0, state.fresh
  state.room = LIMIT > 0 and LIMIT or math.huge
  if state.fresh then return state end
  if m[1] ~= ERROR then return complain("BLOOM_ERROR_RATE", m[1], ERROR) end
  state.capacity, state.count = tonumber(m[2]), tonumber(m[3])
  if state.capacity ~= CAPACITY and LIMIT <= state.capacity then
    return complain("BLOOM_CAPACITY", m[2], text(CAPACITY))
  end
  return state
end

local function create(state)
  call("BF.RESERVE", state.key, ERROR, RESERVE, "EXPANSION", "2")
  expire(state, state.key)
  state.missing = false
end

local function has(state, item)
  return not state.missing and call("BF.EXISTS", state.key, item) == 1
end

local function add(state, item)
  if state.missing then create(state) end
  if state.count >= state.room then return has(state, item) and 0 or -1 end
  local new = call("BF.ADD", state.key, item)
  if new == 1 then state.count, state.changed = state.count + 1, true end
  return new
end

local function add_all(state, items)
  local number, verdicts, new = #items, {}, 0
  if state.missing then create(state) end
  for from = 1, number, MOST do
    local answers = call("BF.MADD", state.key, unpack(items, from, math.min(from + MOST - 1, number)))
    for i = 1, #answers do new = new + answers[i] end
    if number <= MOST then
      verdicts = answers
    else
      for i = 1, #answers do verdicts[from + i - 1] = answers[i] end
    end
  end
  state.count, state.changed = state.count + new, true
  return verdicts
end

local function close(state)
  if state.changed and state.missing then create(state) end
  close_meta(state, "error_rate", ERROR, "capacity", text(state.capacity), "count", text(state.count))
end

local function forget(state, item)
  return has(state, item) and -1 or 0
end

local function room(state)
  return LIMIT > 0 and LIMIT - state.count or nil
end

return { open = open, add = add, add_all = add_all, has = has, forget = forget, room = room, close = close }
