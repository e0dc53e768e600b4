-- Purpose: carries out one command on an object, once, however often the request arrives
-- Counterpart: RObject.delete, unlink, rename, renamenx, copy; RExpirable.expire, expireAt, clearExpire; the part behind queue/record.lua
-- KEYS[2..] object: its keys, the main one last; for a rename or a copy as many under the new name, then the channel where others wait for
--   permits of that name, if there may be some now
-- ARGV[1..] those of record.lua; from the fifth on the command, how many keys the object has, and the command's arguments after its keys
-- Returns: "1" if something was changed, else "0"; "missing" for a rename of what is not there. In an array where that was nothing
-- Publishes: where there is a channel, and permits under the new name now: as announce.lua has it
-- Repeat-safe: yes, by record.lua
-- Invariant: all keys of an object have one name, and expire together if they have expired together before

local command, count, done = ARGV[5], ARGV[6] + 0, '0'

local function work()
  local renames = string.find(command, '^RENAME')
  if renames and redis.call('EXISTS', unpack(KEYS, 2, count + 1)) == 0 then return 'missing' end
  if command == 'RENAMENX' and redis.call('EXISTS', unpack(KEYS, count + 2, 2 * count + 1)) > 0 then return done end
  -- The main key last: a user that may write to the others may write to it.
  for i = 2, count + 1 do
    local line = { renames and 'RENAME' or command, KEYS[i], KEYS[i + count] }
    for n = 7, #ARGV do line[#line + 1] = ARGV[n] end
    if renames and redis.call('EXISTS', KEYS[i]) == 0 then line = { 'DEL', KEYS[i + count] } end
    if change(unpack(line)) ~= 0 then done = '1' end
  end
  return done
end

local function tell()
  if KEYS[2 * count + 2] and done == '1' then announce_all(KEYS[2 * count + 2], KEYS[2 * count + 1]) end
end

return once(work, tell)
