-- Purpose: puts off the end of what one client holds under leases, as long as it holds it
-- Counterpart: extension
-- KEYS[1..] grants: zset, entry -> until when it is granted, in microseconds of the server's clock
-- ARGV[1] lease in milliseconds
-- ARGV[2..] for each key how many, 1000 at the most, and their entries
-- Returns: 1 for each entry that is held, 0 for each that is not any more
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only of what is held
-- Invariant: an entry that is not there is not made

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local later = string.format('%.0f', now + ARGV[1] * 1000)
local answer, at = {}, 2
for _, grants in ipairs(KEYS) do
  local count = tonumber(ARGV[at])
  local scores = redis.pcall('ZMSCORE', grants, unpack(ARGV, at + 1, at + count))
  -- A key of another type holds nothing of ours. Any other refusal says nothing of it.
  if scores.err and not string.find(scores.err, '^WRONGTYPE ') then return scores end
  local changes = {}
  for i = 1, count do
    local held = not scores.err and scores[i]
    if held then changes[#changes + 1], changes[#changes + 2] = later, ARGV[at + i] end
    answer[#answer + 1] = held and 1 or 0
  end
  if #changes > 0 then redis.call('ZADD', grants, 'XX', unpack(changes)) end
  at = at + 1 + count
end
return answer
