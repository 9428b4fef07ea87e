-- What the exchange and the batch script see of the memory SEEN: plain functions that answer with numbers.

local function add_one_by_one(state, items)
  local verdicts = {}
  for i = 1, #items do verdicts[i] = SEEN.add(state, items[i]) end
  return verdicts
end

local function has(state, item)
  return SEEN.has(state, item) and 1 or 0
end

local function nothing_to_fold()
  return 0
end

dedup_open, dedup_add, dedup_close = SEEN.open, SEEN.add, SEEN.close
dedup_has, dedup_forget = has, SEEN.forget
dedup_add_all, dedup_fold = SEEN.add_all or add_one_by_one, SEEN.fold or nothing_to_fold
