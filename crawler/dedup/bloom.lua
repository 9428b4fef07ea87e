-- A Bloom filter of growing layers, for the exchange and for stand-alone batches. Layout 1 (see sizing.py, positions.py).
--
-- Composed by bloom.py after one line of constants:
--   LAYOUT, ERROR, CAPACITY   version and error rate (text), elements of the first layer
--   LIMIT                     elements in all, or 0: grow without limit
--   LANES, SLOTS, LOADS       lanes of a block, blocks per key, elements per block of layer 1, 2, …
--   tables()                  texts made in advance, because making one from a number costs half of a GETRANGE: 0, 1, …
--                             255; the offsets of the first and last byte of a key's blocks; and the value of a lane's 96 bits
--
-- Keys, all beginning with the base given to dedup_open:
--   BASE:bloom:meta                hash    layout, error_rate, capacity, lanes, blocks (of each layer), count, epoch
--   BASE:bloom:EPOCH:LAYER:HI:LO   string  SLOTS blocks: segment 256 * HI + LO of a layer, allocated whole when first used
-- EPOCH is the server's time when the filter was begun: clearing one filter can never touch the bits of the next.
--
-- dedup_open(base)         → state (with .epoch), or nil and an error text; writes nothing
-- dedup_add(state, item)   → 1 new and recorded | 0 seen | -1 full, nothing recorded
-- dedup_has(state, item)   → 1 or 0; writes nothing
-- dedup_close(state)       writes metadata and counters if they changed: call it once, after the last dedup_add
--
-- Why so: a redis.call costs more than testing a block in Lua, so there is one GETRANGE per layer and one SETRANGE per
-- new element. Bits are tested and set by arithmetic on 48-bit words: cheaper than calling a bit library per bit.

local dedup_open, dedup_add, dedup_has, dedup_close
do
  local call, byte, unpack_word, pack_words = redis.call, string.byte, struct.unpack, struct.pack
  local HASH, BLOCK, WORDS = 6, 12 * LANES, ">" .. string.rep("I6", 2 * LANES)
  local NUMERAL, FIRST, LAST, MASK

  local function complain(name, stored, configured)
    return nil, name .. "=" .. configured .. ": the stored Bloom filter was made with " .. stored
      .. "; set it back, or clear what was seen"
  end

  function dedup_open(base)
    local meta = base .. ":bloom:meta"
    local m = call("HMGET", meta, "layout", "error_rate", "capacity", "lanes", "blocks", "count", "epoch")
    local epoch = m[7]
    if not epoch then
      local now = call("TIME")
      epoch = string.format("%.0f", now[1] * 1000000 + now[2])
    end
    local state = { meta = meta, epoch = epoch, prefix = base .. ":bloom:" .. epoch .. ":",
      blocks = {}, layers = 0, room = 0, capacity = CAPACITY, count = 0, changed = not m[7] }
    if not m[7] then return state end
    if m[1] ~= LAYOUT then return complain("Bloom layout", m[1], LAYOUT) end
    if m[2] ~= ERROR then return complain("BLOOM_ERROR_RATE", m[2], ERROR) end
    if m[4] ~= tostring(LANES) then return complain("Bloom lanes", m[4], LANES) end
    state.capacity, state.count = tonumber(m[3]), tonumber(m[6])
    if state.capacity ~= CAPACITY and LIMIT <= state.capacity then
      return complain("BLOOM_CAPACITY", m[3], string.format("%.0f", CAPACITY))
    end
    for blocks in string.gmatch(m[5], "%d+") do
      state.layers = state.layers + 1
      state.blocks[state.layers] = tonumber(blocks)
    end
    state.room = state.capacity * (2 ^ state.layers - 1)
    return state
  end

  -- The key of an element's block in a layer, the block's number within that key, and the key's number.
  local function locate(state, layer, hash)
    local block = hash % state.blocks[layer]
    local slot = block % SLOTS
    local segment = (block - slot) / SLOTS
    local low = segment % 256
    local high = (segment - low) / 256
    return state.prefix .. layer .. ":" .. (NUMERAL[high + 1] or high) .. ":" .. NUMERAL[low + 1], slot + 1, segment
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
    if not NUMERAL then NUMERAL, FIRST, LAST, MASK = tables() end
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

  function dedup_add(state, item)
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

  function dedup_has(state, item)
    return find(state, { byte(item, 1, -1) }) and 1 or 0
  end

  function dedup_close(state)
    if not state.changed then return end
    call("HSET", state.meta, "layout", LAYOUT, "error_rate", ERROR, "lanes", LANES,
      "capacity", string.format("%.0f", state.capacity), "blocks", table.concat(state.blocks, ","),
      "count", string.format("%.0f", state.count), "epoch", state.epoch)
  end
end
