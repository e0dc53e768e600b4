-- Purpose: puts off the end of the locks that one client holds, as long as its owners hold them.
-- Counterpart: extension (the watchdog of RLock)
-- KEYS[1..] lock: hash, the owner that holds it -> how often
-- ARGV[1] lease in milliseconds
-- ARGV[2..] the owner of each lock
-- Returns: 1 for each lock that lasts so long at least, 0 for each that its owner does not hold any more; an error where
--   the server does not let it be seen, and some may have been put off
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only for the owner that holds the lock
-- Invariant: a lock of another owner, and one that is free, stay as they are

local answer = {}
for i, lock in ipairs(KEYS) do
  local held = redis.pcall('HEXISTS', lock, ARGV[i + 1])
  -- A key that holds another type by now is no lock of ours. Any other refusal says nothing of it.
  if type(held) == 'table' and not string.find(held.err, '^WRONGTYPE ') then return held end
  if held == 1 and redis.call('PTTL', lock) < tonumber(ARGV[1]) then redis.call('PEXPIRE', lock, ARGV[1]) end
  answer[i] = held == 1 and 1 or 0
end
return answer
