-- Purpose: wakes everyone who waits for a semaphore with permits left, because one message may have
--   reached only waiters for more permits than there are.
-- Counterpart: extension
-- KEYS[1] semaphore: string, the permits available as a decimal integer
-- KEYS[2] channel: where waiters of every client listen
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] how many blocked threads a client may wake
-- ARGV[3] how many async waiters a client is asked to start
-- Returns: the number of listeners; 0 when no permits are left
-- Publishes: the larger of the total and ARGV[2], then "0" ARGV[3] times; nothing without permits
-- Repeat-safe: yes, nothing is stored
-- Invariant: no key is changed

local total = tonumber(redis.call('GET', KEYS[1]))
if not total or total < 1 then return 0 end

local payload = string.format('%.0f', math.min(2147483647, math.max(total, tonumber(ARGV[2]))))
local listeners = redis.call(ARGV[1], KEYS[2], payload)
for _ = 1, listeners > 0 and tonumber(ARGV[3]) or 0 do
  redis.call(ARGV[1], KEYS[2], '0')
end
return listeners
