-- Purpose: deletes records that are not needed any more: the calls on them were answered when they were sent for the first
--   time, and no copy of them is on its way
-- Counterpart: extension
-- KEYS[1..] records: string, "<sequence number> ..." of the client's last call that is on record
-- ARGV[1..] the number of the last such call of each
-- Returns: how many were deleted
-- Publishes: nothing
-- Repeat-safe: yes, the record of a later call stays, however late this arrives
-- Invariant: what is no record of ours, or that of a later call, stays as it is

local deleted = 0
for i, key in ipairs(KEYS) do
  local record = redis.pcall('GET', key)
  local number = type(record) == 'string' and tonumber(string.match(record, '^%d+'))
  if number and number <= tonumber(ARGV[i]) then deleted = deleted + redis.call('DEL', key) end
end
return deleted
