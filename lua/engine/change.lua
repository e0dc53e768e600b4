-- Purpose: makes a change that may be refused by itself
-- Counterpart: extension: a part of scripts that go on without a change
-- Returns: nothing by itself; it defines `change`
-- Publishes: nothing
-- Repeat-safe: yes, where its caller is
-- Invariant: what a replica refuses is the script's error: nothing can be done there, and whoever asks is to go to its master

-- As redis.pcall.
local function change(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err and string.find(answer.err, 'READONLY', 1, true) then redis.call(...) end
  return answer
end
