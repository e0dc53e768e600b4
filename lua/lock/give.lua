-- Purpose: the usual case of giving a lock back: its owner holds it once, and no call of this client was repeated
--   lately. Everything else is left to batch.lua.
-- Counterpart: RLock.unlock
-- KEYS[1] lock: hash, the owner that holds it -> how often
-- KEYS[2] channel: where waiters of every client listen
-- KEYS[3] fence: string, there if late copies of this client's calls may arrive
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] owner
-- Returns: as batch.lua; "no" for any other case, in an array as nothing has changed
-- Publishes: "0"
-- Repeat-safe: no, a late copy finds the fence
-- Invariant: only the owner's hold is given back

if redis.call('HGET', KEYS[1], ARGV[2]) ~= '1' or redis.call('EXISTS', KEYS[3]) == 1 then return { 'no' } end
local ttl = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
local listeners = redis.pcall(ARGV[1], KEYS[2], '0')
if type(listeners) == 'table' then
  -- Those who wait would not know that it is free.
  local kept = redis.pcall('HSET', KEYS[1], ARGV[2], 1)
  if type(kept) ~= 'table' and ttl >= 0 then kept = redis.pcall('PEXPIRE', KEYS[1], ttl) end
  if type(kept) ~= 'table' then return listeners end
  -- Nobody may hold it for ever.
  redis.call('DEL', KEYS[1])
  listeners = -1
end
return 'done ' .. listeners .. ' 0 0'
