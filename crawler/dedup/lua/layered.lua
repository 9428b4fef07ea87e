-- An exact set of what was seen recently in front of a Bloom filter of everything older. The recent set can forget.
--
-- Constants in front: RECENT elements that the sets hold together; HISTORY, a Bloom module
-- Keys:      BASE:dedup:ID:recent   set  encoded elements, the newer half
--            BASE:dedup:ID:folding  set  the older half, on its way into history
--            BASE:history:dedup:*        the Bloom filter
--
-- Folding is spread over the calls: each moves a little more than it added, so the older half is empty before the newer
-- one is full.

local KIND = "layered/" .. HISTORY_KIND
local FOLD_AT_LEAST = 32

local function open(base, conf, expires)
  local state, _, problem = open_meta(base, KIND, expires)
  if not state then return nil, problem end
  state.history, problem = HISTORY.open(base .. ":history", conf, expires)
  if not state.history then return nil, problem end
  state.recent, state.folding = state.prefix .. "recent", state.prefix .. "folding"
  state.folds = call("EXISTS", state.folding) == 1
  state.added = 0
  return state
end

local function recently(state, item)
  return call("SISMEMBER", state.recent, item) == 1 or state.folds and call("SISMEMBER", state.folding, item) == 1
end

local function has(state, item)
  return recently(state, item) or HISTORY.has(state.history, item)
end

local function room(state)
  local room_ = HISTORY.room(state.history)
  if not room_ then return nil end
  state.held = state.held or call("SCARD", state.recent) + call("SCARD", state.folding)
  return room_ - state.held
end

local function add(state, item)
  if has(state, item) then return 0 end
  local left = room(state)
  if left and left <= 0 then return -1 end
  call("SADD", state.recent, item)
  state.added, state.held = state.added + 1, state.held and state.held + 1
  return 1
end

local function forget(state, item)
  if call("SREM", state.recent, item) + call("SREM", state.folding, item) == 0 then
    return HISTORY.forget(state.history, item)
  end
  forgot(state)
  return 1
end

local function fold_some(state, count)
  local moved = call("SPOP", state.folding, count)
  for i = 1, #moved do HISTORY.add(state.history, moved[i]) end
  state.folds = #moved == count
end

-- On demand: moves up to `count` elements into history and returns how many are still recent.
local function fold(state, count)
  if not state.folds and call("EXISTS", state.recent) == 1 then
    call("RENAME", state.recent, state.folding)
    state.folds = true
  end
  if state.folds then fold_some(state, count) end
  return call("SCARD", state.recent) + call("SCARD", state.folding)
end

local function close(state)
  if state.added > 0 then
    if state.folds then fold_some(state, 2 * state.added + FOLD_AT_LEAST) end
    if not state.folds and call("SCARD", state.recent) >= RECENT / 2 then call("RENAME", state.recent, state.folding) end
    expire(state, state.recent)
    expire(state, state.folding)
  end
  HISTORY.close(state.history)
  close_meta(state)
end

return { open = open, add = add, has = has, forget = forget, room = room, close = close, fold = fold }
