-- Purpose: what the stores of the recipes go by: the clock, and what travels with each call
-- Counterpart: extension: the part before those that keep the holders
-- Returns: nothing by itself; it defines `setting_of` for the parts behind it
-- Publishes: nothing
-- Repeat-safe: yes, it changes nothing
-- Invariant: the clock is read once by look.lua, and once by batch.lua or refresh.lua

-- Flags: "s" times are in seconds, "t" the store has tokens, "r" an expiry that is missing is set.
local function setting_of(limit, timeout, flags)
  local time = redis.call('TIME')
  return {
    now = time[1] * 1000000 + time[2],
    limit = limit + 0,
    timeout = timeout + 0,
    seconds = string.find(flags, 's', 1, true),
    tokens = string.find(flags, 't', 1, true),
    repair = string.find(flags, 'r', 1, true),
  }
end
