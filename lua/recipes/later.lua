-- Purpose: the time of a holder that is refreshed now, in the unit of the one before: seconds with fractions, or milliseconds
-- Counterpart: extension; the part before queue/renew.lua
-- ARGV[1] how long a holder lasts without a refresh, in milliseconds
-- Returns: nothing by itself; it defines `later`, which returns that time; nothing of a holder whose time is over
-- Publishes: nothing
-- Repeat-safe: yes, it changes nothing
-- Invariant: nothing is changed

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function later(score)
  -- Milliseconds of these days are more.
  local seconds = score < 1e11
  if (seconds and score * 1e3 or score) + ARGV[1] <= now then return nil end
  return seconds and string.format('%.6f', time[1] + time[2] / 1e6) or string.format('%.0f', now)
end

