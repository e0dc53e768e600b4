-- Purpose: notifies waiters that there are permits, and counts the listeners
-- Counterpart: extension: a part of scripts that may leave permits free
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- Returns: nothing by itself; it defines `announce`, `announce_all` and `count_listeners`
-- Publishes: the total, 2^31-1 at the most, as a JVM would take a larger number for a negative one; then "0" for each further permit
--   added, 63 at the most, as long as a subscriber gets it, so that each async waiter of a JVM is started
-- Repeat-safe: yes, the notified waiters only check
-- Invariant: nothing is changed

-- Says that there are `total` permits, `added` of them new, with a sign before each message. How many have heard it; or nothing,
-- and why it was refused.
local function announce(channel, total, added, sign)
  local heard = redis.pcall(ARGV[1], channel, sign .. (total > 2147483647 and '2147483647' or total))
  if heard == 0 then return heard end
  if type(heard) == 'table' then return nil, heard.err end
  for _ = 2, added > 1 and math.min(added, total, 64) or 0 do
    if redis.pcall(ARGV[1], channel, sign .. '0') == 0 then break end
  end
  return heard
end

-- Says how many permits the counter has, if any. Where that is forbidden the slow check of others finds them.
local function announce_all(channel, counter)
  local content = redis.pcall('GET', counter)
  local total = type(content) == 'string' and tonumber(content)
  if total and total >= 1 and total % 1 == 0 then announce(channel, total, total, '') end
end

-- The number of listeners, without those of a pattern, which wait for nothing; -1 if it can't be learned.
local function count_listeners(channel)
  local counted = redis.pcall('PUBSUB', ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counted.err and -1 or counted[2]
end
