-- Purpose: puts off the end of permits that one client holds, as long as it holds them.
-- Counterpart: extension (a watchdog for RPermitExpirableSemaphore)
-- KEYS[1..] permits: zset, id -> when it ends, in milliseconds since 1970
-- ARGV[1] lease in milliseconds
-- ARGV[2..] for each key how many, 1000 at the most, and their ids
-- Returns: 1 for each permit that lasts so long at least, 0 for each that is not held any more; an error where the server
--   does not let it be seen, and some may have been put off
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only of a permit that is held
-- Invariant: a permit whose time is over stays so

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local later = now + ARGV[1]
local later_text = string.format('%.0f', later)
local answer, at = {}, 2
for _, permits in ipairs(KEYS) do
  local count = tonumber(ARGV[at])
  local scores = redis.pcall('ZMSCORE', permits, unpack(ARGV, at + 1, at + count))
  -- A key that holds another type by now has no permits of ours. Any other refusal says nothing of them.
  if scores.err and not string.find(scores.err, '^WRONGTYPE ') then return scores end
  local put_off = {}
  for i = 1, count do
    local ends = not scores.err and tonumber(scores[i])
    local held = ends and ends > now
    if held and ends < later then
      put_off[#put_off + 1], put_off[#put_off + 2] = later_text, ARGV[at + i]
    end
    answer[#answer + 1] = held and 1 or 0
  end
  if #put_off > 0 then redis.call('ZADD', permits, 'XX', unpack(put_off)) end
  at = at + 1 + count
end
return answer
