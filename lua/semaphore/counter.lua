-- Purpose: reads the counter of a semaphore; one that can't be read is refused before anything else is done
-- Counterpart: extension: the part behind envelope.lua of the script that ends with batch.lua
-- KEYS[1..] keys: those of envelope.lua; where turns are kept, the line and its notes follow
-- Returns: a refusal of batch.lua, or what the record has instead; else nothing, it goes on with the next part.
--   It defines `text` and `before`, the counter as it is in Redis and as a number; `CLIENT`, this client's id, and `LINE` and `NOTES`, where turns are kept
-- Publishes: nothing
-- Repeat-safe: yes, a refusal of what may be repeated is put on record
-- Invariant: the counter is not changed

-- Who holds how many is kept by holders.lua, where that is a part of the script.
local holders
local LINE, NOTES, CLIENT = KEYS[4], KEYS[5], string.sub(KEYS[1], -36)

-- Below 10^14 a Lua number and its text are both exact. Only a text that Redis itself would write is an
-- integer to it.
local text = redis.pcall('GET', OBJECT)
local before, refusal = 0, nil
if type(text) == 'table' then
  refusal = 'refused ' .. text.err
elseif text then
  before = tonumber(text)
  if not before or before % 1 ~= 0 or before <= -1e14 or before >= 1e14
    or before .. '' ~= text or text == '-0' then
    refusal = 'unreadable ' .. string.sub(text, 1, 64)
  end
end
if refusal then return on_record(refusal) or refusal end
