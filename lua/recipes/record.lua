-- Purpose: answers a repeated batch from the record, before anything else is done
-- Counterpart: extension: the first part of the scripts that end with batch.lua
-- KEYS[1..] keys: those of batch.lua; the last but two is the record: string, "<sequence number> <answer>"
-- ARGV[1..] those of batch.lua; the second is the sequence number of this batch, rising within a client; the fourth
--   is "2" where a later number is not by this client
-- Returns: for a repeated number what it was answered with; "stale" for a batch older than the record, and for one that
--   is sent for the first time and is on record; else nothing, it goes on with the next part
-- Publishes: nothing
-- Repeat-safe: yes, this is what makes it so
-- Invariant: changes nothing

local RECORD = KEYS[#KEYS - 2]
local record = redis.call('GET', RECORD)
if record then
  local last, sequence = tonumber(string.match(record, '^(%d+) ')), tonumber(ARGV[2])
  -- One that is sent for the first time can't be there: somebody else has written that, or this is a late copy.
  if last == sequence then return ARGV[4] == '1' and string.sub(record, #ARGV[2] + 2) or 'stale' end
  if last and last > sequence and ARGV[4] ~= '2' then return 'stale' end
end
