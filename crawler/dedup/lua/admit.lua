-- What the exchange and the batch script see of the memory SEEN: plain functions that answer with numbers.

local add, add_at_once = SEEN.add, SEEN.add_all

-- One by one what does not fit into what is open: somewhere in it the memory grows, or is full.
local function add_all(state, items)
  if add_at_once and state.count + #items <= state.room then return add_at_once(state, items) end
  local verdicts = {}
  for i = 1, #items do verdicts[i] = add(state, items[i]) end
  return verdicts
end

local function has(state, item)
  return SEEN.has(state, item) and 1 or 0
end

local function nothing_to_fold()
  return 0
end

dedup_open, dedup_add, dedup_close = SEEN.open, add, SEEN.close
dedup_has, dedup_forget = has, SEEN.forget
dedup_add_all, dedup_fold = add_all, SEEN.fold or nothing_to_fold
