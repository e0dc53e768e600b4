-- Purpose: carries out one command on an object, once, however often the request arrives.
-- Counterpart: RObject.delete, unlink, rename, renamenx, copy; RExpirable.expire, expireAt, clearExpire; the part behind queue/record.lua
-- KEYS[2] object: the key that the command is about
-- KEYS[3] other: a second key of the command, where it has one
-- KEYS[4] channel: where others wait for permits under that key, given if there may be some now
-- ARGV[1..] those of record.lua; from the fifth on the command, whether it takes the second key, "1" or "0", and its arguments after its keys
-- Returns: the command's answer as text, as record.lua has it
-- Publishes: where there is a channel, and permits under the second key now: as announce.lua has it
-- Repeat-safe: yes, by record.lua
-- Invariant: after an error nothing has changed

local text

local function work()
  local command = { ARGV[5], KEYS[2] }
  if ARGV[6] == '1' then command[3] = KEYS[3] end
  for i = 7, #ARGV do command[#command + 1] = ARGV[i] end
  local answer = change(unpack(command))
  text = type(answer) == 'table' and answer.ok or tostring(answer)
  return text
end

return once(work, function() if KEYS[4] and text ~= '0' then announce_all(KEYS[4], KEYS[3]) end end)
