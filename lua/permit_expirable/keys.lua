-- Purpose: one operation on both keys of a semaphore whose permits have ids
-- Counterpart: RPermitExpirableSemaphore.expire, expireAt, clearExpire, rename, renamenx; the part behind queue/record.lua
-- KEYS[2] counter: string, the permits available
-- KEYS[3] permits: zset, those that are held
-- KEYS[4..] renamed: counter and permits under the new name, then the channel where others wait for that
-- ARGV[1..] those of record.lua; from the fifth on: PEXPIRE, PEXPIREAT, PERSIST, RENAME or RENAMENX; a time, a condition or ""
-- Returns: "1" if something was changed, else "0"; "missing" for a rename of what is not there. In an array where that was nothing
-- Publishes: after a rename the permits available, as announce.lua has it
-- Repeat-safe: yes, by record.lua
-- Invariant: both keys have one name, and expire together if they have expired together before

local kind, time, condition = ARGV[5], ARGV[6], ARGV[7]
local renamed = false

local function rename(from, to)
  if redis.call('EXISTS', to) == 1 then change('DEL', to) end
  if redis.call('EXISTS', from) == 1 then change('RENAME', from, to) end
end

local function work()
  if string.find(kind, '^RENAME') then
    if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then return 'missing' end
    if kind == 'RENAMENX' and redis.call('EXISTS', KEYS[4], KEYS[5]) > 0 then return '0' end
    if KEYS[2] ~= KEYS[4] then
      -- The permits first: a user that may write to them may write to the counter.
      rename(KEYS[3], KEYS[5])
      rename(KEYS[2], KEYS[4])
      renamed = true
    end
    return '1'
  end
  local done = 0
  for _, key in ipairs({ KEYS[3], KEYS[2] }) do
    local command = { kind, key, time, condition }
    if condition == '' then command[4] = nil end
    if time == '' then command[3] = nil end
    done = done + change(unpack(command))
  end
  return done > 0 and '1' or '0'
end

return once(work, function() if renamed then announce_all(KEYS[6], KEYS[4]) end end)
