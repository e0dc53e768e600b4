-- Purpose: puts off the end of slots and string locks that one client holds
-- Counterpart: extension
-- KEYS[1..] slot: string, the id of its holder; with a time to live
-- ARGV[1] how long each lasts from now on, in milliseconds
-- ARGV[2..] the id in each of them
-- Returns: 1 for each slot that lasts so long at least, 0 for each that holds another id, or none
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only of what is held
-- Invariant: a slot of another holder, and one that is free, stay as they are

local answer = {}
for i, slot in ipairs(KEYS) do
  local id = redis.pcall('GET', slot)
  if type(id) == 'table' and not string.find(id.err, '^WRONGTYPE ') then return id end
  local left = id == ARGV[i + 1] and redis.call('PTTL', slot)
  if left and left >= 0 and left < tonumber(ARGV[1]) then redis.call('PEXPIRE', slot, ARGV[1]) end
  answer[i] = left and 1 or 0
end
return answer
