-- A Bloom filter of growing layers on plain strings. Layout 1 (sizing.py and positions.py say where bits lie).
--
-- Constants in front: LAYOUT, ERROR (texts); CAPACITY elements of the first layer; LIMIT elements in all, 0: no limit;
--   LANES of a block, SLOTS blocks per key, LOADS elements per block of layer 1, 2, …;
--   offsets() → texts of the offsets of the first and last byte of a key's blocks, and the value of a lane's 96 bits
-- Metadata:  layout, error_rate, capacity, lanes, blocks (of each layer), count
-- Keys:      BASE:dedup:ID:LAYER:HI:LO  string  segment 256 * HI + LO of a layer: SLOTS blocks, allocated at first use
--
-- A redis.call costs more than testing a block in Lua, so there is one GETRANGE per layer and one SETRANGE per new
-- element. Bits are tested and set by arithmetic on 48-bit words: cheaper than calling a bit library per bit.

local byte, unpack_word, pack_words = string.byte, struct.unpack, struct.pack
local HASH, BLOCK, WORDS = 6, 12 * LANES, ">" .. string.rep("I6", 2 * LANES)
local FIRST, LAST, MASK

local function open(base, _, expires)
  local state, m, problem = open_meta(base, "bitmap", expires,
    "layout", "error_rate", "capacity", "lanes", "blocks", "count")
  if not state then return nil, problem end
  state.blocks, state.layers, state.room, state.capacity, state.count = {}, 0, 0, CAPACITY, 0
  if state.fresh then return state end
  if m[1] ~= LAYOUT then return complain("Bloom layout", m[1], LAYOUT) end
  if m[2] ~= ERROR then return complain("BLOOM_ERROR_RATE", m[2], ERROR) end
  if m[4] ~= tostring(LANES) then return complain("Bloom lanes", m[4], LANES) end
  state.capacity, state.count = tonumber(m[3]), tonumber(m[6])
  if state.capacity ~= CAPACITY and LIMIT <= state.capacity then
    return complain("BLOOM_CAPACITY", m[3], text(CAPACITY))
  end
  for blocks in string.gmatch(m[5], "%d+") do
    state.layers = state.layers + 1
    state.blocks[state.layers] = tonumber(blocks)
  end
  state.room = state.capacity * (2 ^ state.layers - 1)
  return state
end

-- The key of an element's block in a layer, the block's number within that key (from 1), and the key's number.
local function locate(state, layer, hash)
  local block = hash % state.blocks[layer]
  local slot = block % SLOTS
  local segment = (block - slot) / SLOTS
  return numbered(state.prefix, layer, segment), slot + 1, segment
end

local function all_set(bits, p)
  local at = 1
  for i = HASH + 1, HASH + LANES do
    local bit = p[i]
    local mask = MASK[bit]
    if unpack_word(">I6", bits, bit < 48 and at or at + 6) % (mask + mask) < mask then return false end
    at = at + 12
  end
  return true
end

-- Newest layer first: it holds half of everything. Returns true if any layer has the element, else false and, of the
-- newest layer, where the element belongs and what is there.
local function find(state, p)
  if not FIRST then FIRST, LAST, MASK = offsets() end
  local hash = ((((p[1] * 256 + p[2]) * 256 + p[3]) * 256 + p[4]) * 256 + p[5]) * 256 + p[6]
  local newest = state.layers
  local key, slot, segment, bits
  for layer = newest, 1, -1 do
    local k, s, g = locate(state, layer, hash)
    local b = call("GETRANGE", k, FIRST[s], LAST[s])
    if b ~= "" and all_set(b, p) then return true end
    if layer == newest then key, slot, segment, bits = k, s, g, b end
  end
  return false, hash, key, slot, segment, bits
end

local function grow(state)
  local layer = state.layers + 1
  state.blocks[layer] = math.ceil(state.capacity * 2 ^ (layer - 1) / LOADS[layer])
  state.layers = layer
  state.room = state.capacity * (2 ^ layer - 1)
end

-- Without a first write to its end a key would grow in steps that leave up to half of it unused.
local function allocate(state, key, segment)
  local blocks = math.min(SLOTS, state.blocks[state.layers] - segment * SLOTS)
  call("SETRANGE", key, blocks * BLOCK - 1, "\0")
  expire(state, key)
  return string.rep("\0", BLOCK)
end

local function with_bits(bits, p)
  local words, at = { unpack_word(WORDS, bits) }, 1
  for i = HASH + 1, HASH + LANES do
    local bit = p[i]
    local mask, word = MASK[bit], bit < 48 and at or at + 1
    if words[word] % (mask + mask) < mask then words[word] = words[word] + mask end
    at = at + 2
  end
  return pack_words(WORDS, unpack(words, 1, 2 * LANES))
end

local function add(state, item)
  local p = { byte(item, 1, -1) }
  local seen, hash, key, slot, segment, bits = find(state, p)
  if seen then return 0 end
  if LIMIT > 0 and state.count >= LIMIT then return -1 end
  if state.count >= state.room then
    if state.layers == #LOADS then return -1 end
    grow(state)
    key, slot, segment = locate(state, state.layers, hash)
    bits = ""
  end
  if bits == "" then bits = allocate(state, key, segment) end
  call("SETRANGE", key, FIRST[slot], with_bits(bits, p))
  state.count = state.count + 1
  state.changed = true
  return 1
end

local function has(state, item)
  return (find(state, { byte(item, 1, -1) }))
end

local function close(state)
  close_meta(state, "layout", LAYOUT, "error_rate", ERROR, "lanes", LANES, "capacity", text(state.capacity),
    "blocks", table.concat(state.blocks, ","), "count", text(state.count))
end

local function forget(state, item)
  return has(state, item) and -1 or 0
end

local function room(state)
  return LIMIT > 0 and LIMIT - state.count or nil
end

return { open = open, add = add, has = has, forget = forget, room = room, close = close }
