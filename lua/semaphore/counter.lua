-- Purpose: reads the counter of a semaphore; one that can't be read is refused before anything else is done
-- Counterpart: extension: the first part of the script that ends with batch.lua
-- KEYS[1..] keys: those of batch.lua
-- ARGV[1..] those of batch.lua
-- Returns: a refusal of batch.lua, or what the record has instead; else nothing, it goes on with the next part.
--   It defines `text` and `before`, the counter as it is in Redis and as a number, `record` and `count_listeners`
-- Publishes: nothing
-- Repeat-safe: yes, a refusal of what may be repeated is put on record
-- Invariant: the counter is not changed

-- Who holds how many is kept by holders.lua, where that is a part of the script.
local holders

-- Puts this batch on record, unless it, or a later one, is there already: then nothing has changed, and
-- the second value is what to answer. A batch that is sent for the first time can't be there: somebody else has written
-- that, or this is a late copy, which nobody hears.
local function record(answer)
  local old = redis.call('SET', KEYS[3], ARGV[2] .. ' ' .. answer, 'PX', ARGV[3], 'GET')
  if not old then return false end
  local space = string.find(old, ' ', 1, true) or 1
  local last, sequence = tonumber(string.sub(old, 1, space - 1)), tonumber(ARGV[2])
  if not last or last < sequence or last > sequence and ARGV[4] == '2' then return old end
  redis.call('SET', KEYS[3], old, 'PX', ARGV[3])
  return old, last == sequence and ARGV[4] == '1' and string.sub(old, space + 1) or 'stale'
end

-- How many listen; -1 if that can't be learned. And how many listen to another channel.
local function count_listeners(other)
  local counting = ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local counted = redis.pcall('PUBSUB', counting, KEYS[2], other or KEYS[2])
  if counted.err then return -1, 0 end
  return counted[2], counted[4]
end

-- Below 10^14 a Lua number and its text are both exact. Only a text that Redis itself would write is an
-- integer to it.
local text = redis.pcall('GET', KEYS[1])
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
if refusal then
  local earlier
  if ARGV[4] ~= '0' then earlier = select(2, record(refusal)) end
  return earlier or refusal
end
