-- Purpose: carries out, once, calls of which each changes something before the next one is looked at: the answer is put on record
--   when all of that is done
-- Counterpart: extension: the part behind record.lua of the recipes' scripts; theirs, behind it, ends with
--   `return carry_out_steps(work, undo)`
-- KEYS[1..] keys: the record, the object, and its channel; `OBJECT` and `CHANNEL` to the primitive
-- ARGV[1..] those of record.lua
-- Returns: as envelope.lua does, and "unrecorded <one of these>" where it should have been put on record by ARGV[4], and could not
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: what is answered is what was done

-- Their object is the line of our clients.
local OBJECT, CHANNEL, LINE = KEYS[2], KEYS[3], KEYS[2]

-- `work` answers with words, and whether something has changed that must not be done twice; with nothing and what it has found;
-- or with an error. `undo`, told of an error, takes back what nobody may have who is not told of it: what is to be said then, or
-- "refused" if that was all; nothing if there was nothing to take back.
local function carry_out_steps(work, undo)
  local known = on_record()
  if known then return known end
  local done, words, more = pcall(work)
  if not done then
    local text = type(words) == 'table' and words.err or tostring(words)
    undo(text)
    on_record('refused ' .. text)
    return type(words) == 'table' and words or redis.error_reply(text)
  end
  local answer = words and 'done ' .. words or 'unreadable ' .. string.sub(more, 1, 64)
  if ARGV[4] == '0' and not (words and more) then return { answer } end
  local refusal = on_record(answer, true)
  if not refusal then return answer end
  local left = undo(refusal.err)
  if left == 'refused' then return refusal end
  answer = left and 'done ' .. left or answer
  return ARGV[4] ~= '0' and 'unrecorded ' .. answer or answer
end
