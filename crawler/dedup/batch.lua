-- Stand-alone use of an admission chunk: one atomic call for a batch. Composed after the chunk that defines dedup_*.
--
-- KEYS[1]  base of the dupefilter's keys
-- ARGV[1]  msgpack map given to dedup_open
-- ARGV[2]  "add" or "has"
-- ARGV[3]  msgpack array of encoded elements
-- → one character per element: "1" new (has: present), "0" seen (has: absent), "F" full; or an error reply DEDUP …

local state, problem = dedup_open(KEYS[1], cmsgpack.unpack(ARGV[1]))
if not state then return redis.error_reply("DEDUP " .. problem) end
local verdict = { [1] = "1", [0] = "0", [-1] = "F" }
local step = ARGV[2] == "add" and dedup_add or dedup_has
local answers = {}
for i, item in ipairs(cmsgpack.unpack(ARGV[3])) do answers[i] = verdict[step(state, item)] end
if ARGV[2] == "add" then dedup_close(state) end
return table.concat(answers)
