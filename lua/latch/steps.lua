-- Purpose: carries out the calls of one client on one count-down latch, in order
-- Counterpart: RCountDownLatch.trySetCount, countDown, await, delete; the last part of the script, behind queue/record.lua
-- KEYS[2] latch: string, the count
-- KEYS[3] channel: where waiters listen
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[11..] steps of three words: kind, a number, how many such calls
--   set: the count, where there is no latch      down: so often by one      delete      look: whether it is open
--   wait: of nine words: the callers that wait for it to be open
-- Returns: "done 0 <in how many us it vanishes by itself> -1 -1 0 0 <results> |"; the time for a wait, -1: never. Of a step: 1 or 0; of
--   a wait how many need not wait. Or "unreadable <text>", "refused <error>". In an array where nothing has changed
-- Publishes: "0" when the count has come to zero; "1" when there is a new one, and when the latch is deleted
-- Repeat-safe: yes, by record.lua
-- Invariant: a latch whose count has come to zero is gone; to count down keeps its time to live

local LATCH, CHANNEL = KEYS[2], KEYS[3]

local function work()
  local text = redis.call('GET', LATCH)
  -- How much is left is exact below 2^53, and above that no batch comes to zero.
  local exists, left = text ~= false, tonumber(string.match(text or '0', '^-?%d+$'))
  local down, new, messages, results, ends, i = 0, false, {}, {}, -1, 11
  while ARGV[i] do
    local kind, number, count, result = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), 1
    if kind == 'set' then
      result = exists and 0 or 1
      if not exists then exists, left, new, messages[#messages + 1] = true, number, true, '1' end
    elseif kind == 'delete' then
      result = exists and 1 or 0
      if exists then exists, left, messages[#messages + 1] = false, 0, '1' end
    elseif not left then
      return 'unreadable ' .. string.sub(text, 1, 64)
    elseif kind == 'down' and exists then
      if left > 0 and left <= number * count then messages[#messages + 1] = '0' end
      left, down = math.max(0, left - number * count), down + number * count
      exists = left > 0
    elseif kind ~= 'down' then
      result = left > 0 and 0 or kind == 'wait' and count or 1
      if kind == 'wait' and result == 0 and not new then ends = redis.call('PTTL', LATCH) end
    end
    results[#results + 1], i = result, i + (kind == 'wait' and 9 or 3)
  end
  -- A server that may not publish says so before anything has changed.
  for _, message in ipairs(messages) do redis.call(ARGV[1], CHANNEL, message) end
  if exists and new then
    change('SET', LATCH, string.format('%.0f', left))
  elseif exists and down > 0 then
    change('DECRBY', LATCH, down)
  elseif text and not exists then
    change('DEL', LATCH)
  end
  return string.format('done 0 %.0f -1 -1 0 0 ', ends < 0 and -1 or ends * 1000) .. table.concat(results, ' ') .. ' |'
end

return once(work, function() end)
