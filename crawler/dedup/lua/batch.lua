-- Stand-alone use of a memory: one atomic call for a batch. Composed after the chunk that defines dedup_*.
--
-- KEYS[1]  base of the dupefilter's keys
-- ARGV[1]  msgpack map given to dedup_open
-- ARGV[2]  "add", "has", "forget" or "fold"
-- ARGV[3]  msgpack array of encoded elements; fold: how many
-- → the epoch, a space, and one character per element (fold: how many are left to fold); or an error reply DEDUP …
--     add     "1" new and recorded, "0" seen, "F" full and not recorded
--     has     "1" seen, "0" not
--     forget  "1" forgotten, "0" was not there, "F" this kind of memory cannot

local state, problem = dedup_open(KEYS[1], cmsgpack.unpack(ARGV[1]))
if not state then return redis.error_reply("DEDUP " .. problem) end
local operation, items = ARGV[2], cmsgpack.unpack(ARGV[3])
local begins = operation == "add" or not state.fresh   -- only what is recorded begins a memory
local letters = { [1] = "1", [0] = "0", [-1] = "F" }
local answers = {}
if operation == "fold" then
  local left = begins and dedup_fold(state, items) or 0
  if begins then dedup_close(state) end
  return state.epoch .. " " .. left
elseif operation == "add" then
  answers = dedup_add_all(state, items)
else
  local step = operation == "has" and dedup_has or dedup_forget
  for i = 1, #items do answers[i] = step(state, items[i]) end
end
for i = 1, #items do answers[i] = letters[answers[i]] end
if operation ~= "has" and begins then dedup_close(state) end
return state.epoch .. " " .. table.concat(answers)
