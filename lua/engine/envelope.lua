-- Purpose: carries out what a primitive has decided about a batch of calls, whose answer is on record by then; where that is
--   refused it is undone, and the record taken back
-- Counterpart: extension: the part behind record.lua of the scripts of src/engine/primitive. The primitive's, behind it, decides,
--   puts its answer on record, tells others, and ends with `return carry_out(...)`. To the listeners all of that is one moment
-- KEYS[1..] keys: the record, see record.lua; the object and its channel, `OBJECT` and `CHANNEL` to the primitive; the object's
--   further keys
-- ARGV[1..] those of record.lua; from `FIRST` on steps, as the primitive has them
-- Returns: "done", and what the primitive answers; "unreadable <text>" for something that does not belong there;
--   "refused <error>": nothing has changed, by any sending; what record.lua does. In an array where nothing has changed: there is
--   nothing that replicas could confirm. An error, and this sending has changed nothing
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: what is answered is what was written; after a refusal nothing has changed

local OBJECT, CHANNEL, FIRST = KEYS[2], KEYS[3], 5

-- Makes `changes`, commands each with another one that will `undo` it, and answers with `words`. What stands behind a change that
-- can't be undone has been tried by the primitive, with something that changes nothing. `old` stood in the record before;
-- `refusal` is that of a message: then nothing is changed.
local function carry_out(words, changes, old, refusal)
  for i = 1, refusal and 0 or #changes do
    local done = redis.pcall(unpack(changes[i]))
    if type(done) == 'table' and done.err and (i == 1 or changes[i - 1].undo) then
      refusal = done.err
      for last = i - 1, 1, -1 do redis.pcall(unpack(changes[last].undo)) end
      break
    end
  end
  local answer, recorded = 'done ' .. words, changes[1] or ARGV[4] ~= '0'
  if refusal then return refuse(refusal, old, changes[1]) end
  return recorded and answer or { answer }
end
