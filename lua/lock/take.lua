-- Purpose: the usual case of taking a lock: nobody holds it, nobody has been passed for long, and no call of this client
--   was repeated lately. Everything else is left to batch.lua.
-- Counterpart: RLock.tryLock
-- KEYS[1] lock: hash, the owner that holds it -> how often
-- KEYS[2] fence: string, there if late copies of this client's calls may arrive
-- KEYS[3] next: string, there if it is settled who of those who wait is next
-- KEYS[4] channel: where waiters of every client listen; given by those who wait
-- ARGV[1] owner
-- ARGV[2] lease in milliseconds
-- ARGV[3] publish command: PUBLISH or SPUBLISH; with the channel
-- Returns: as batch.lua; "no" for any other case, in an array as nothing has changed
-- Publishes: nothing
-- Repeat-safe: no, a late copy finds the fence
-- Invariant: at most one owner; always with a time to live

if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) == 0 then
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  local kept = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(kept) == 'table' then
    -- Nobody may hold it for ever.
    if type(redis.pcall('DEL', KEYS[1])) == 'table' then redis.pcall('HDEL', KEYS[1], ARGV[1]) end
    return kept
  end
  return 'done -1 1 0'
end

local ttl = redis.call('PTTL', KEYS[1])
if ttl == -2 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return { 'no' } end
local counting = ARGV[3] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
local counted = KEYS[4] and redis.pcall('PUBSUB', counting, KEYS[4]) or { err = 'not asked for' }
return { 'done ' .. (counted.err and -1 or counted[2]) .. ' 0 ' .. string.format('%.0f', ttl) }
