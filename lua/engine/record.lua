-- Purpose: keeps on record what a client's last call on an object came to, so that it happens once, however often its request
--   arrives
-- Counterpart: extension: the part of the scripts of src/engine/primitive behind change.lua and before envelope.lua or steps.lua, and of once.lua
-- KEYS[1] record: string, "<sequence number> <answer>" of the client's last call that is on record
-- ARGV[1..] first a publish command; then the sequence number of this call, rising within a client, of a fixed width; the time to
--   live of the record in milliseconds; "1": put the call on record even if it changes nothing (an earlier copy may still arrive),
--   "2": the same, and a later number that stands there now is not by this client; else "0"; from ARGV[5] on the call: without one it
--   is asked what has become of this number
-- Returns: to a question what is on record; "none" where that is nothing: the call will do nothing from now on. To a call nothing by
--   itself; it defines `on_record` and `refuse`
-- Publishes: nothing
-- Repeat-safe: yes, that is what it is for
-- Invariant: the record of a later call stays

-- Puts `answer` on record, if something `changes` or it must be; without one it only looks. Returns what is to be answered where this
-- call is on record already or can't be put there ("stale": a later one stands there); else nothing, and what stood there before.
local function on_record(answer, changes)
  local old
  if not answer then
    old = redis.pcall('GET', KEYS[1])
  elseif changes or ARGV[4] ~= '0' then
    old = change('SET', KEYS[1], ARGV[2] .. ' ' .. answer, 'PX', ARGV[3], 'GET')
  end
  if not old or type(old) == 'table' then return old end
  if old < ARGV[2] then return nil, old end
  local last, sequence = tonumber(string.match(old, '^(%d+) ')), tonumber(ARGV[2])
  if not last or last < sequence or last > sequence and ARGV[4] == '2' then return nil, old end
  -- Replicas are asked for the last thing that this connection has written.
  change('SET', KEYS[1], old, 'PX', ARGV[3])
  -- One that is sent for the first time can't be there: somebody else has written that, or this is a late copy.
  return last == sequence and ARGV[4] == '1' and string.sub(old, #ARGV[2] + 2) or 'stale'
end

-- What a call answers that was refused, behind which nothing has changed. `recorded`: it is on record, in place of `old`, and is taken off.
local function refuse(refusal, old, recorded)
  local stays = ARGV[4] ~= '0'
  if recorded and not stays then
    local taken_off = old and redis.pcall('SET', KEYS[1], old, 'PX', ARGV[3]) or redis.pcall('DEL', KEYS[1])
    stays = type(taken_off) == 'table' and taken_off.err
  end
  -- What can't be taken off, or must keep earlier copies out, says that it was refused.
  if not stays then return redis.error_reply(refusal) end
  local answer = 'refused ' .. refusal
  redis.pcall('SET', KEYS[1], ARGV[2] .. ' ' .. answer, 'PX', ARGV[3])
  return answer
end

if not ARGV[5] then return on_record('none', true) or 'none' end
