-- Purpose: looks at the counter of a semaphore whose permits have ids, and says what lua/semaphore/turns.lua goes by, as that
--   is the same for both kinds of semaphores
-- Counterpart: extension: the part of the script behind envelope.lua and line.lua, and before turns.lua and steps.lua
-- KEYS[1..] keys: those of envelope.lua; where turns are kept, the line and its notes follow
-- ARGV[1] publish command
-- Returns: nothing by itself; it defines `text` and `before`, the counter as it stands in Redis, or an error, and as a number, 0
--   for none; `count_listeners`; and KEYS in the order of the semaphore's script
-- Publishes: nothing
-- Repeat-safe: yes, it only reads
-- Invariant: nothing is changed

local PERMITS = FURTHER
local KEYS = { OBJECT, CHANNEL, RECORD, KEYS[5], KEYS[6] }
local text = OBJECT and redis.pcall('GET', OBJECT)
local before = type(text) == 'string' and tonumber(text) or 0

-- How many listen; -1 if that can't be learned. And how many listen to another channel.
local function count_listeners(other)
  local counting = ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local counted = redis.pcall('PUBSUB', counting, CHANNEL, other or CHANNEL)
  if counted.err then return -1, 0 end
  return counted[2], counted[4]
end
