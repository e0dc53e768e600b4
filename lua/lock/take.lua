-- Purpose: the usual case of taking a lock: nobody holds it, and no call of this client was repeated lately. Everything else is
--   left to batch.lua.
-- Counterpart: RLock.tryLock
-- KEYS[1] lock: hash, the owner that holds it -> how often
-- KEYS[2] fence: string, there if late copies of this client's calls may arrive
-- KEYS[3] channel: where waiters of every client listen; given by those who wait
-- KEYS[4] line: zset, there if others wait for their turns, see engine/line.lua; given by those who would wait for theirs
-- ARGV[1] owner
-- ARGV[2] lease in milliseconds
-- ARGV[3] publish command: PUBLISH or SPUBLISH; with the channel
-- ARGV[4] how many of those who listen are this client; with the line
-- Returns: as batch.lua; "no" for any other case, in an array as nothing has changed
-- Publishes: nothing
-- Repeat-safe: no, a late copy finds the fence
-- Invariant: at most one owner; always with a time to live

local function count_listeners()
  local counted = KEYS[3] and redis.pcall('PUBSUB', ARGV[3] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[3])
  return counted and not counted.err and counted[2] or -1
end

if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  -- Those who stand in line are told that it is their turn just now.
  local listeners = KEYS[4] and redis.call('EXISTS', KEYS[4]) == 1 and count_listeners() or 0
  if listeners > 0 and listeners > ARGV[4] + 0 then return { 'done ' .. listeners .. ' -4 0' } end
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
return { 'done ' .. count_listeners() .. ' 0 ' .. string.format('%.0f', ttl) }
