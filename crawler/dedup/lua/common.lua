-- Shared by the kinds of memory: metadata that says what is stored, so that nothing is read as what it is not.
--
-- Key:  BASE:dedup:meta  hash  kind, id, forgotten, and each kind's own fields
-- All data of a memory lies under BASE:dedup:ID:…, ID being the server's time when it was begun: clearing one memory can
-- never touch the next.
--
-- A kind is a module (a table) of
--   open(base, conf, expires)  → state, or nil and an error text; writes nothing. expires: ms, or nil for never
--   add(state, item)           → 1 new and recorded | 0 seen | -1 full, nothing recorded
--   add_all(state, items)      → their verdicts; optional, for kinds that keep state.count and state.room: only asked where the
--                                batch fits (state.count + #items <= state.room)
--   has(state, item)           → true if seen; writes nothing
--   forget(state, item)        → 1 forgotten | 0 was not there | -1 this kind cannot
--   room(state)                → how many more it takes, or nil: any number
--   fold(state, count)         → what is left to fold (optional: layered memories)
--   close(state)               writes metadata and counters if they changed; call it once, last

local call, struct_unpack = redis.call, struct.unpack

local function complain(name, stored, configured)
  return nil, name .. "=" .. configured .. ": what was seen is stored with " .. stored
    .. "; set it back, or drop it (scrapy dedup clear)"
end

local function window_text(text_)
  return string.match(text_ or "a window", "^[^/]*")   -- older versions stored the number of generations behind it
end

local configured_window   -- what DEDUP_WINDOW says; set by window.lua

local function complain_kind(meta, stored, configured)
  local function parts(kind)
    return string.find(kind, "^window/") ~= nil, (string.gsub(string.gsub(kind, "^window/", ""), "native", "bitmap"))
  end
  local stored_window, stored_class = parts(stored)
  local window, class = parts(configured)
  if stored_window ~= window then
    return complain("DEDUP_WINDOW", stored_window and window_text(call("HGET", meta, "window")) or "none",
      window and window_text(configured_window) or "none")
  end
  return complain(stored_class == class and "BLOOM_BACKEND" or "DUPEFILTER_CLASS", stored, configured)
end

-- Reads the metadata. Returns a state and the values of the fields named, false where there is none yet.
local function open_meta(base, kind, expires, ...)
  local meta = base .. ":dedup:meta"
  local m = call("HMGET", meta, "kind", "id", "forgotten", ...)
  local stored, id, forgotten = m[1], m[2], m[3] or "0"
  if stored and stored ~= kind then
    local _, problem = complain_kind(meta, stored, kind)
    return nil, nil, problem
  end
  if not stored then
    local now = call("TIME")
    id = string.format("%x", now[1] * 1000000 + now[2])
  end
  local state = { meta = meta, id = id, epoch = id .. "." .. forgotten, prefix = base .. ":dedup:" .. id .. ":",
    kind = kind, expires = expires, fresh = not stored, changed = not stored, forgotten = tonumber(forgotten) }
  return state, { unpack(m, 4, 3 + select("#", ...)) }
end

-- Writes the metadata and the fields given, if anything changed.
local function close_meta(state, ...)
  if not state.changed then return end
  call("HSET", state.meta, "kind", state.kind, "id", state.id, "forgotten", state.forgotten, ...)
  if state.fresh and state.expires then call("PEXPIREAT", state.meta, state.expires) end
  state.changed, state.fresh = false, false
end

local function expire(state, key)
  if state.expires then call("PEXPIREAT", key, state.expires) end
end

local function forgot(state)
  state.forgotten, state.changed = state.forgotten + 1, true
  state.epoch = state.id .. "." .. state.forgotten
end

local function text(number)
  return string.format("%.0f", number)
end

-- How many elements the layers of a memory take; of `limit` elements (0: no limit) never more than those.
local function room_in_layers(state, limit)
  local room = state.capacity * (2 ^ state.layers - 1)
  return limit > 0 and math.min(room, limit) or room
end

-- What the names of a layer's keys begin with.
local function layer_prefix(state, layer)
  return state.prefix .. layer .. ":"
end

-- Texts of 0 … 255 are made in advance (NUMERALS): making a text from a number costs half of a GETRANGE.
local function numbered(prefix, number)
  local low = number % 256
  local high = (number - low) / 256
  return prefix .. (NUMERALS[high + 1] or high) .. ":" .. NUMERALS[low + 1]
end
