-- Purpose: puts off the end of what one client holds in zsets, as long as it holds it. The last part of a script
-- Counterpart: extension; behind a part that defines `later`
-- KEYS[1..] holders: zset, holder -> end of its lease
-- ARGV[2..] for each key how many, 1000 at the most, and their members
-- Returns: 1 for each member that holds, 0 for each that does not any more; an error where the server does not let it be seen, and some may
--   have been put off
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only of what is held
-- Invariant: a member that is not there is not entered

local answer, at = {}, 2
for _, holders in ipairs(KEYS) do
  local count = tonumber(ARGV[at])
  local scores = redis.pcall('ZMSCORE', holders, unpack(ARGV, at + 1, at + count))
  -- A key of another type holds nothing of ours. Any other refusal says nothing of it.
  if scores.err and not string.find(scores.err, '^WRONGTYPE ') then return scores end
  local changes = {}
  for i = 1, count do
    local score = not scores.err and tonumber(scores[i] or nil)
    local put_off = score and later(score)
    if put_off then changes[#changes + 1], changes[#changes + 2] = put_off, ARGV[at + i] end
    answer[#answer + 1] = put_off and 1 or 0
  end
  if #changes > 0 then
    -- This changes nothing. Redis takes what stands behind a command that needs no memory.
    redis.call('ZREM', holders, '')
    redis.call('ZADD', holders, 'XX', 'GT', unpack(changes))
  end
  at = at + 1 + count
end
return answer
