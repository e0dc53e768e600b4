-- Purpose: refreshes the holders of timestamp and fair semaphores, for one client
-- Counterpart: extension
-- KEYS[1..] times: zset, id -> time in seconds (with fractions) or milliseconds
-- ARGV[1] how long a holder lasts without a refresh, in milliseconds
-- ARGV[2..] for each key how many, 1000 at the most, and their ids
-- Returns: 1 for each id that holds, 0 for each that does not any more
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only of what is held
-- Invariant: an id that is not there is not entered; each time stays in its unit

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answer, at = {}, 2
for _, times in ipairs(KEYS) do
  local count = tonumber(ARGV[at])
  local scores = redis.pcall('ZMSCORE', times, unpack(ARGV, at + 1, at + count))
  -- A key of another type holds nothing of ours. Any other refusal says nothing of it.
  if scores.err and not string.find(scores.err, '^WRONGTYPE ') then return scores end
  local changes = {}
  for i = 1, count do
    local score = not scores.err and tonumber(scores[i] or nil)
    -- Milliseconds of these days are more.
    local seconds = score and score < 1e11
    local held = score and (seconds and score * 1e3 or score) + ARGV[1] > now
    if held then
      changes[#changes + 1] = seconds and string.format('%.6f', time[1] + time[2] / 1e6) or string.format('%.0f', now)
      changes[#changes + 1] = ARGV[at + i]
    end
    answer[#answer + 1] = held and 1 or 0
  end
  if #changes > 0 then redis.call('ZADD', times, 'XX', 'GT', unpack(changes)) end
  at = at + 1 + count
end
return answer
