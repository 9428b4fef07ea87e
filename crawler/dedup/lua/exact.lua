-- A set of fingerprints: no errors, and it can forget; some seventy bytes per URL.
--
-- Key:  BASE:dedup:ID:seen  set; the item is the fingerprint

local function open(base, _, expires)
  local state, _, problem = open_meta(base, "exact", expires)
  if not state then return nil, problem end
  state.key = state.prefix .. "seen"
  return state
end

local function add(state, item)
  local new = call("SADD", state.key, item)
  return new
end

local function has(state, item)
  return call("SISMEMBER", state.key, item) == 1
end

local function forget(state, item)
  local forgotten = call("SREM", state.key, item)
  if forgotten == 1 then forgot(state) end
  return forgotten
end

local function close(state)
  if state.expires and not state.expiring then
    state.expiring = true
    expire(state, state.key)
  end
  close_meta(state)
end

return { open = open, add = add, has = has, forget = forget, room = function() end, close = close }
