-- Purpose: puts off the end of permits that one client holds, as long as it holds them.
-- Counterpart: extension (a watchdog for RPermitExpirableSemaphore)
-- KEYS[1..] permits: zset, id -> when it ends, in milliseconds since 1970: where each of them stands
-- ARGV[1] lease in milliseconds
-- ARGV[2..] the id of each
-- Returns: 1 for each permit that lasts so long at least, 0 for each that is not held any more; an error where the server
--   does not let it be seen, and some may have been put off
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only of a permit that is held
-- Invariant: a permit whose time is over stays so

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local later = now + ARGV[1]
local answer = {}
for i, permits in ipairs(KEYS) do
  local score = redis.pcall('ZSCORE', permits, ARGV[i + 1])
  -- A key that holds another type by now has no permits of ours. Any other refusal says nothing of them.
  if type(score) == 'table' and not string.find(score.err, '^WRONGTYPE ') then return score end
  local ends = type(score) == 'string' and tonumber(score)
  local held = ends and ends > now
  if held and ends < later then
    redis.call('ZADD', permits, 'XX', string.format('%.0f', later), ARGV[i + 1])
  end
  answer[i] = held and 1 or 0
end
return answer
