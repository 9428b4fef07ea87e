-- 32 bits of a hash per element as an integer, in sets small enough for the server to keep them as sorted arrays.
--
-- Constants in front: ERROR (text), CAPACITY elements of the first layer, LIMIT elements in all, 0: no limit, LOADS elements
--   per set of layer 1, 2, …
-- Metadata:  error_rate, capacity, sets (of each layer), count
-- Keys:      BASE:dedup:ID:LAYER:HI:LO  set  number 256 * HI + LO of a layer; members are integers
-- Item:      6 bytes that choose the set, then the member as decimal text and a zero byte
--
-- An element is taken for another one if both fall into one set with the same integer: LOAD / 2^32 per layer. A layer
-- beyond its capacity is not wrong more often than its load says, and a set beyond 512 members only costs memory.

local function open(base, _, expires)
  local state, m, problem = open_meta(base, "compact", expires, "error_rate", "capacity", "sets", "count")
  if not state then return nil, problem end
  state.sets, state.names, state.layers, state.room, state.capacity, state.count = {}, {}, 0, 0, CAPACITY, 0
  if state.fresh then return state end
  if m[1] ~= ERROR then return complain("BLOOM_ERROR_RATE", m[1], ERROR) end
  state.capacity = tonumber(m[2])
  if state.capacity ~= CAPACITY and LIMIT <= state.capacity then
    return complain("BLOOM_CAPACITY", m[2], text(CAPACITY))
  end
  for sets in string.gmatch(m[3], "%d+") do
    state.layers = state.layers + 1
    state.sets[state.layers] = tonumber(sets)
    state.names[state.layers] = layer_prefix(state, state.layers)
  end
  state.count, state.room = tonumber(m[4]), room_in_layers(state, LIMIT)
  return state
end

local function key_of(state, layer, hash)
  return numbered(state.names[layer], hash % state.sets[layer])
end

local function grow(state)
  local layer = state.layers + 1
  state.sets[layer] = math.ceil(state.capacity * 2 ^ (layer - 1) / LOADS[layer])
  state.names[layer] = layer_prefix(state, layer)
  state.layers = layer
  state.room = room_in_layers(state, LIMIT)
end

local function has(state, item)
  local hash, member = struct_unpack(">I6s", item)
  for layer = state.layers, 1, -1 do
    if call("SISMEMBER", key_of(state, layer, hash), member) == 1 then return true end
  end
  return false
end

-- Whether a layer older than the newest has it.
local function older(state, hash, member)
  for layer = state.layers - 1, 1, -1 do
    if call("SISMEMBER", key_of(state, layer, hash), member) == 1 then return true end
  end
  return false
end

-- The newest layer is asked by adding to it.
local function add(state, item)
  if LIMIT > 0 and state.count >= LIMIT then return has(state, item) and 0 or -1 end
  if state.count >= state.room and state.layers < #LOADS then
    if has(state, item) then return 0 end
    grow(state)
  end
  local hash, member = struct_unpack(">I6s", item)
  if older(state, hash, member) then return 0 end
  local key = key_of(state, state.layers, hash)
  if call("SADD", key, member) == 0 then return 0 end
  expire(state, key)
  state.count, state.changed = state.count + 1, true
  return 1
end

-- The same for a batch that the newest layer takes whole: what is the same for all is looked up once.
local function add_all(state, items)
  local number, verdicts = #items, {}
  local name, sets, first, expires, new = state.names[state.layers], state.sets[state.layers], state.layers == 1,
    state.expires, 0
  for i = 1, number do
    local hash, member = struct_unpack(">I6s", items[i])
    local verdict = 0
    if first or not older(state, hash, member) then
      local key = numbered(name, hash % sets)
      verdict = call("SADD", key, member)
      if verdict == 1 and expires then expire(state, key) end
      new = new + verdict
    end
    verdicts[i] = verdict
  end
  if new > 0 then state.count, state.changed = state.count + new, true end
  return verdicts
end

local function forget(state, item)
  local hash, member = struct_unpack(">I6s", item)
  local forgotten = 0
  for layer = state.layers, 1, -1 do
    forgotten = forgotten + call("SREM", key_of(state, layer, hash), member)
  end
  if forgotten == 0 then return 0 end
  state.count = state.count - forgotten
  forgot(state)
  return 1
end

local function close(state)
  close_meta(state, "error_rate", ERROR, "capacity", text(state.capacity), "sets", table.concat(state.sets, ","),
    "count", text(state.count))
end

local function room(state)
  return LIMIT > 0 and LIMIT - state.count or nil
end

return { open = open, add = add, add_all = add_all, has = has, forget = forget, room = room, close = close }
