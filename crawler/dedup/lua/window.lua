-- A memory that forgets by time: generations of equal length, each a memory of its own that expires.
--
-- Constants in front: KIND; WINDOW (text for people), LENGTH of a generation in ms, GENERATIONS per window; INNER, a module
-- Metadata:  window, length, generations, offset (ms by which rotations moved the clock ahead)
-- Keys:      BASE:wNUMBER:…  generation NUMBER (server time / LENGTH)
--
-- An element is recorded in the current generation and looked for in it and in GENERATIONS older ones: it is remembered
-- for at least a window, at most a window and one generation.

configured_window = WINDOW

local function open(base, conf)
  local state, m, problem = open_meta(base, KIND, nil, "window", "offset", "length", "generations")
  if not state then return nil, problem end
  local parts = text(GENERATIONS)
  if m[1] and m[4] ~= parts then return complain("DEDUP_WINDOW_GENERATIONS", m[4], parts) end
  if m[1] and m[3] ~= text(LENGTH) then return complain("DEDUP_WINDOW", window_text(m[1]), window_text(WINDOW)) end
  local now = call("TIME")
  state.offset, state.window = tonumber(m[2] or 0), m[1] or WINDOW
  local number = math.floor((now[1] * 1000 + now[2] / 1000 + state.offset) / LENGTH)
  for i = GENERATIONS, 0, -1 do
    local expires = text((number - i + GENERATIONS + 1) * LENGTH - state.offset)
    local generation
    generation, problem = INNER.open(base .. ":w" .. text(number - i), conf, expires)
    if not generation then return nil, problem end
    if i == 0 then state.current = generation elseif not generation.fresh then state[#state + 1] = generation end
  end
  state.epoch = state.epoch .. "." .. text(number) .. "." .. state.current.id
  return state
end

local function before(state, item)
  for i = #state, 1, -1 do
    if INNER.has(state[i], item) then return true end
  end
  return false
end

local function add(state, item)
  if before(state, item) then return 0 end
  return INNER.add(state.current, item)
end

local function has(state, item)
  return INNER.has(state.current, item) or before(state, item)
end

local function forget(state, item)
  local result = INNER.forget(state.current, item)
  for i = 1, #state do
    local older = INNER.forget(state[i], item)
    if older ~= 0 and result ~= -1 then result = older end
  end
  if result == 1 then forgot(state) end
  return result
end

-- The current generation first, then what older ones kept in their recent sets.
local function fold(state, count)
  if not INNER.fold then return 0 end
  local left = INNER.fold(state.current, count)
  for i = 1, #state do
    if left > 0 then break end
    left = INNER.fold(state[i], count)
  end
  return left
end

local function close(state)
  INNER.close(state.current)
  for i = 1, #state do INNER.close(state[i]) end
  close_meta(state, "window", state.window, "length", text(LENGTH), "generations", GENERATIONS, "offset", text(state.offset))
end

return { open = open, add = add, has = has, forget = forget, room = function() end, close = close,
  fold = fold }
