-- Purpose: one operation on both keys of a semaphore whose permits have ids
-- Counterpart: RPermitExpirableSemaphore.expire, expireAt, clearExpire, rename, renamenx; the last part of the script, behind
--   announce.lua and envelope.lua
-- KEYS[1..] all: those of envelope.lua, OBJECT being the counter; then the permits that are held; for a rename CHANNEL is
--   where those wait who wait for the new name, and the new counter and the new permits follow
-- ARGV[1..] those of envelope.lua; then an operation and two words more
--   expire: in how many milliseconds, condition: "", "NX", "XX", "GT", "LT"    expire_at: the same, since 1970
--   persist: "", ""    rename: "", ""    renamenx: "", ""
-- Returns: "1" if something was changed, else "0"; "missing" for a rename of what is not there
-- Publishes: after a rename, where permits are available: how many, 2^31-1 at the most, then "0" for each further one
-- Repeat-safe: yes, by envelope.lua
-- Invariant: both keys have one name, and expire together if they have expired together before

local kind, time, condition = ARGV[FIRST], tonumber(ARGV[FIRST + 1]), ARGV[FIRST + 2]
-- The permits first: whoever may write to them may write to the counter.
local own, new = { KEYS[4], OBJECT }, { KEYS[6], KEYS[5] }
local changes, total = {}, nil
local function exists(key) return redis.call('EXISTS', key) == 1 end

-- What is answered.
local function decide()
  if kind == 'rename' or kind == 'renamenx' then
    if not exists(own[1]) and not exists(own[2]) then return 'missing' end
    local same = own[1] == new[1]
    if kind == 'renamenx' and (exists(new[1]) or exists(new[2])) then return '0' end
    if same then return '1' end
    for i = 1, 2 do
      if exists(own[i]) then
        changes[#changes + 1] = { 'RENAME', own[i], new[i] }
      elseif exists(new[i]) then
        changes[#changes + 1] = { 'DEL', new[i] }
      end
    end
    total = tonumber(redis.call('GET', OBJECT) or nil)
    return '1'
  end

  local now = redis.call('TIME')
  now = now[1] * 1000 + math.floor(now[2] / 1000)
  local left = kind == 'expire_at' and time - now or time
  for i = 1, 2 do
    local life = redis.call('PTTL', own[i])
    if life == -2 then
      -- Nothing stands there.
    elseif kind == 'persist' then
      if life >= 0 then changes[#changes + 1] = { 'PERSIST', own[i] } end
    elseif condition == '' or condition == 'NX' and life == -1 or condition == 'XX' and life >= 0
      or condition == 'GT' and life >= 0 and left > life or condition == 'LT' and (life == -1 or left < life) then
      changes[#changes + 1] = { kind == 'expire' and 'PEXPIRE' or 'PEXPIREAT', own[i], ARGV[FIRST + 1] }
    end
  end
  return changes[1] and '1' or '0'
end

local words = decide()
local known, old = on_record('done ' .. words, changes[1])
if known then return known end
local heard, refusal
if total and total >= 1 and total % 1 == 0 then heard, refusal = announce(CHANNEL, total, total, '') end
return carry_out(words, changes, old, refusal)
