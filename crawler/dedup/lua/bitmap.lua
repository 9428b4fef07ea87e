-- A Bloom filter of growing layers on plain strings. Layout 2 (sizing.py and positions.py say where bits lie).
--
-- Constants in front: LAYOUT, ERROR (texts); CAPACITY elements of the first layer; LIMIT elements in all, 0: no limit;
--   LANES of a block, LANE_WORDS of a lane, SLOTS blocks per key, LOADS elements per block of layer 1, 2, …;
--   offsets() → texts of the offsets of the first and last byte of a key's blocks; MASK, the value of each bit;
--   merged(bits, item) → the block `bits` with the element's bits set, or nil if they all were
-- Metadata:  layout, error_rate, capacity, lanes, lane_words, blocks (of each layer), count
-- Keys:      BASE:dedup:ID:LAYER:HI:LO  string  segment 256 * HI + LO of a layer: SLOTS blocks, allocated at first use
--
-- A redis.call costs more than testing a block in Lua, so there is one GETRANGE per layer and one SETRANGE per new
-- element. Bits are tested and set by arithmetic on 48-bit words, cheaper than calling a bit library per bit, in code that
-- is written out for the number of lanes (kinds.py): without loops and tables it takes half the time.

local byte = string.byte
local BLOCK = 6 * LANE_WORDS * LANES
local EMPTY = string.rep("\0", BLOCK)
local FIRST, LAST = offsets()

local function open(base, _, expires)
  local state, m, problem = open_meta(base, "bitmap", expires,
    "layout", "error_rate", "capacity", "lanes", "blocks", "count", "lane_words")
  if not state then return nil, problem end
  state.blocks, state.names, state.layers, state.room, state.capacity, state.count = {}, {}, 0, 0, CAPACITY, 0
  if state.fresh then return state end
  if m[1] ~= LAYOUT then return complain("Bloom layout", m[1], LAYOUT) end
  if m[2] ~= ERROR then return complain("BLOOM_ERROR_RATE", m[2], ERROR) end
  if m[4] ~= tostring(LANES) or m[7] ~= tostring(LANE_WORDS) then
    return complain("Bloom lanes", m[4] .. "x" .. m[7], LANES .. "x" .. LANE_WORDS)
  end
  state.capacity, state.count = tonumber(m[3]), tonumber(m[6])
  if state.capacity ~= CAPACITY and LIMIT <= state.capacity then
    return complain("BLOOM_CAPACITY", m[3], text(CAPACITY))
  end
  for blocks in string.gmatch(m[5], "%d+") do
    state.layers = state.layers + 1
    state.blocks[state.layers] = tonumber(blocks)
    state.names[state.layers] = layer_prefix(state, state.layers)
  end
  state.room = room_in_layers(state, LIMIT)
  return state
end

-- The key of an element's block in a layer, the block's number within that key (from 1), and the key's number.
local function locate(state, layer, hash)
  local block = hash % state.blocks[layer]
  local slot = block % SLOTS
  local segment = (block - slot) / SLOTS
  return numbered(state.names[layer], segment), slot + 1, segment
end

local function all_set(bits, item)
  local at = 1
  for i = 7, 6 + LANES do
    local bit = byte(item, i)
    local mask = MASK[bit]
    if struct_unpack(">I6", bits, bit < 48 and at or at + 6) % (mask + mask) < mask then return false end
    at = at + 6 * LANE_WORDS
  end
  return true
end

-- Whether a layer up to `newest` has the element, the newest first: it holds half of everything.
local function find(state, newest, hash, item)
  for layer = newest, 1, -1 do
    local key, slot = locate(state, layer, hash)
    local bits = call("GETRANGE", key, FIRST[slot], LAST[slot])
    if bits ~= "" and all_set(bits, item) then return true end
  end
  return false
end

local function grow(state)
  local layer = state.layers + 1
  state.blocks[layer] = math.ceil(state.capacity * 2 ^ (layer - 1) / LOADS[layer])
  state.names[layer] = layer_prefix(state, layer)
  state.layers = layer
  state.room = room_in_layers(state, LIMIT)
end

-- Without a first write to its end a key would grow in steps that leave up to half of it unused.
local function allocate(state, key, segment)
  local blocks = math.min(SLOTS, state.blocks[state.layers] - segment * SLOTS)
  call("SETRANGE", key, blocks * BLOCK - 1, "\0")
  expire(state, key)
  return EMPTY
end

-- Into the newest layer, which is full: a new one is begun, unless there may be none.
local function add_to_next(state, hash, item)
  if find(state, state.layers, hash, item) then return 0 end
  if state.layers == #LOADS then return -1 end
  grow(state)
  local key, slot, segment = locate(state, state.layers, hash)
  call("SETRANGE", key, FIRST[slot], merged(allocate(state, key, segment), item))
  return 1
end

local function add_to_newest(state, hash, item)
  local key, slot, segment = locate(state, state.layers, hash)
  local bits = call("GETRANGE", key, FIRST[slot], LAST[slot])
  local block = merged(bits ~= "" and bits or EMPTY, item)
  if not block or state.layers > 1 and find(state, state.layers - 1, hash, item) then return 0 end
  if bits == "" then allocate(state, key, segment) end
  call("SETRANGE", key, FIRST[slot], block)
  return 1
end

local function add(state, item)
  local hash = struct_unpack(">I6", item)
  if LIMIT > 0 and state.count >= LIMIT then return find(state, state.layers, hash, item) and 0 or -1 end
  local verdict = (state.count < state.room and add_to_newest or add_to_next)(state, hash, item)
  if verdict == 1 then
    state.count = state.count + 1
    state.changed = true
  end
  return verdict
end

-- The same for a batch that the newest layer takes whole: what is the same for all is looked up once.
local function add_all(state, items)
  local number, verdicts = #items, {}
  local name, blocks, older, new = state.names[state.layers], state.blocks[state.layers], state.layers - 1, 0
  local first, last, call, struct_unpack, numbered, merged = FIRST, LAST, call, struct_unpack, numbered, merged
  for i = 1, number do
    local item, verdict = items[i], 0
    local hash = struct_unpack(">I6", item)
    local place = hash % blocks
    local slot = place % SLOTS
    local segment = (place - slot) / SLOTS
    local key, at = numbered(name, segment), first[slot + 1]
    local bits = call("GETRANGE", key, at, last[slot + 1])
    local block = merged(bits ~= "" and bits or EMPTY, item)
    if block and (older == 0 or not find(state, older, hash, item)) then
      if bits == "" then allocate(state, key, segment) end
      call("SETRANGE", key, at, block)
      verdict, new = 1, new + 1
    end
    verdicts[i] = verdict
  end
  if new > 0 then state.count, state.changed = state.count + new, true end
  return verdicts
end

local function has(state, item)
  return find(state, state.layers, struct_unpack(">I6", item), item)
end

local function close(state)
  close_meta(state, "layout", LAYOUT, "error_rate", ERROR, "lanes", LANES, "lane_words", LANE_WORDS,
    "capacity", text(state.capacity), "blocks", table.concat(state.blocks, ","), "count", text(state.count))
end

local function forget(state, item)
  return has(state, item) and -1 or 0
end

local function room(state)
  return LIMIT > 0 and LIMIT - state.count or nil
end

return { open = open, add = add, add_all = add_all, has = has, forget = forget, room = room, close = close }
