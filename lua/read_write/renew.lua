-- Purpose: puts off the end of the read-write locks that one client holds, as long as its owners hold them; and of the holds of its readers
-- Counterpart: extension (the watchdog of RReadWriteLock)
-- KEYS[1..] lock: hash, "mode" and the owners that hold it -> how often; its name begins those of the holds. Behind the locks stand
--   the holds, so that Redis refuses the script while their slot is on its way
-- ARGV[1] lease in milliseconds
-- ARGV[2..] the owner of each lock
-- Returns: 1 for each lock that lasts so long at least, 0 for each that its owner does not hold any more; an error where
--   the server does not let it be seen, and some may have been put off
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only for the owner that holds the lock
-- Invariant: what other owners hold, and a lock that is free, stay as they are

local answer, lease = {}, tonumber(ARGV[1])
for i = 1, #ARGV - 1 do
  local lock, owner = KEYS[i], ARGV[i + 1]
  local held = redis.pcall('HGET', lock, owner)
  -- A key that holds another type by now is no lock of ours. Any other refusal says nothing of it.
  if type(held) == 'table' and not string.find(held.err, '^WRONGTYPE ') then return held end
  local count = type(held) == 'string' and tonumber(held)
  local holds = (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}') .. ':' .. owner .. ':rwlock_timeout:'
  -- First what needs no memory: Redis takes what stands behind it.
  if count and redis.call('PTTL', lock) < lease then redis.call('PEXPIRE', lock, lease) end
  for number = 1, count and not string.find(owner, ':write$') and math.min(count, 1024) or 0 do
    local key = holds .. string.format('%.0f', number)
    if redis.call('PTTL', key) < lease then redis.call('SET', key, 1, 'PX', lease) end
  end
  answer[i] = count and 1 or 0
end
return answer
