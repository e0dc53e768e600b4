-- Purpose: starts some of those who may be asleep beside permits that are left: one message may have reached only
--   waiters for more permits than there are, and starts one async waiter of a JVM however many there are
-- Counterpart: extension
-- KEYS[1] semaphore: string, the permits available as a decimal integer
-- KEYS[2] channel: where waiters of every client listen
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] how many permits were left the last time, -1 if that is not known
-- ARGV[3] how many waiters each client is to start if none have been taken since: 0 only looks
-- ARGV[4] how many are started at the most where permits are being taken
-- ARGV[5] how many of the listeners are this client itself
-- ARGV[6] "1": nobody has announced these permits yet
-- Returns: two numbers: how many permits are left, and how many others listen
-- Publishes: nothing without permits or listeners; else the total where nobody has announced it, or "+" and how many
--   blocked threads are to wake, then "+0" for each further async waiter. To Redisson "+4" is 4; our own clients
--   know by the sign that there is nothing new
-- Repeat-safe: yes, nothing is stored
-- Invariant: no key is changed

local text = redis.call('GET', KEYS[1])
local total = tonumber(text)
if not total or total < 1 then return { 0, 0 } end

-- Who hears all channels by a pattern is counted by PUBLISH, but not here.
local counting = ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
local counted = redis.pcall('PUBSUB', counting, KEYS[2])
local own = tonumber(ARGV[5])
local others = not counted.err and counted[2] - own
if others and others < 1 then return { total, 0 } end

-- As long as those who are started take permits, twice as many are started the next time.
local before, size, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if before > total then size = math.min(2 * (before - total), total, most) end
local new = ARGV[6] == '1'
if size > 0 or new then
  local payload = new and string.format('%.0f', math.min(2147483647, total)) or '+' .. size
  local heard = redis.call(ARGV[1], KEYS[2], payload)
  others = others or heard - own
  for _ = 2, heard > 0 and size or 0 do
    redis.call(ARGV[1], KEYS[2], '+0')
  end
end
return { total, math.max(0, others or 1) }
