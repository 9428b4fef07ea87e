-- A Bloom filter of growing layers, for the exchange and for stand-alone batches. Layout 1 (see sizing.py, positions.py).
--
-- Composed by bloom.py after one line of constants:
--   LAYOUT, ERROR, CAPACITY   version and error rate (text), elements of the first layer
--   LIMIT                     elements in all, or 0: grow without limit
--   LANES, SLOTS, LOADS       lanes of a block, blocks per key, elements per block of layer 1, 2, …
--   numerals()                0, 1, … as texts; offsets of a key's blocks: first bytes, last bytes (making such a text
--                             from a number costs half of a GETRANGE)
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
-- new element. Lanes follow each other, so a changed block is put together from slices in one pass.

local dedup_open, dedup_add, dedup_has, dedup_close
do
  local call, byte, sub, char, concat = redis.call, string.byte, string.sub, string.char, table.concat
  local LANE, HASH = 16, 6
  local BLOCK = LANES * LANE
  local NUMERAL, FIRST, LAST

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
      blocks = {}, layers = 0, capacity = CAPACITY, count = 0, changed = not m[7] }
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
    return state
  end

  -- The key of an element's block in a layer, and the block's number within that key.
  local function locate(state, layer, hash)
    local block = hash % state.blocks[layer]
    local slot = block % SLOTS
    local segment = (block - slot) / SLOTS
    local low = segment % 256
    local high = (segment - low) / 256
    return state.prefix .. layer .. ":" .. (NUMERAL[high + 1] or high) .. ":" .. NUMERAL[low + 1], slot + 1, segment
  end

  local function all_set(bits, item)
    local lane = 0
    for i = HASH + 1, HASH + LANES do
      local mask = byte(item, i + LANES)
      if byte(bits, lane + byte(item, i)) % (mask + mask) < mask then return false end
      lane = lane + LANE
    end
    return true
  end

  -- Newest layer first: it holds half of everything. Returns whether an older or the newest layer has the element, and
  -- of the newest one where the element belongs and what is there.
  local function find(state, hash, item)
    if not NUMERAL then NUMERAL, FIRST, LAST = numerals() end
    local key, slot, segment, bits
    for layer = state.layers, 1, -1 do
      local k, s, g = locate(state, layer, hash)
      local b = call("GETRANGE", k, FIRST[s], LAST[s])
      if b ~= "" and all_set(b, item) then return true end
      if layer == state.layers then key, slot, segment, bits = k, s, g, b end
    end
    return false, key, slot, segment, bits
  end

  local function hash_of(item)
    local a, b, c, d, e, f = byte(item, 1, HASH)
    return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
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

  local function put(bits, item)
    local parts, n, from, lane = {}, 0, 1, 0
    for i = HASH + 1, HASH + LANES do
      local mask, at = byte(item, i + LANES), lane + byte(item, i)
      local old = byte(bits, at)
      if old % (mask + mask) < mask then
        parts[n + 1], parts[n + 2] = sub(bits, from, at - 1), char(old + mask)
        n, from = n + 2, at + 1
      end
      lane = lane + LANE
    end
    parts[n + 1] = sub(bits, from)
    return concat(parts)
  end

  function dedup_add(state, item)
    local hash = hash_of(item)
    local seen, key, slot, segment, bits = find(state, hash, item)
    if seen then return 0 end
    if LIMIT > 0 and state.count >= LIMIT then return -1 end
    if state.count >= (state.room or state.capacity * (2 ^ state.layers - 1)) then
      if state.layers == #LOADS then return -1 end
      grow(state)
      key, slot, segment = locate(state, state.layers, hash)
      bits = ""
    end
    if bits == "" then bits = allocate(state, key, segment) end
    call("SETRANGE", key, FIRST[slot], put(bits, item))
    state.count = state.count + 1
    state.changed = true
    return 1
  end

  function dedup_has(state, item)
    return find(state, hash_of(item), item) and 1 or 0
  end

  function dedup_close(state)
    if not state.changed then return end
    call("HSET", state.meta, "layout", LAYOUT, "error_rate", ERROR, "lanes", LANES,
      "capacity", string.format("%.0f", state.capacity), "blocks", concat(state.blocks, ","),
      "count", string.format("%.0f", state.count), "epoch", state.epoch)
  end
end
