-- Purpose: carries out one command on an object, once, however often the request arrives.
-- Counterpart: RObject.delete, unlink, rename, renamenx, copy; RExpirable.expire, expireAt, clearExpire
-- KEYS[1] record: string, "<sequence number> <answer>" of this client's last call that is on record
-- KEYS[2] object: the key that the command is about
-- KEYS[3] other: a second key of the command, where it has one
-- KEYS[4] channel: where others wait for permits under that key, given if there may be some now
-- ARGV[1] sequence number of this call, rising within a client
-- ARGV[2] time to live of the record in milliseconds
-- ARGV[3] command
-- ARGV[4] whether the command takes the second key: "1" or "0"
-- ARGV[5] "1": put an error on record, too (an earlier copy of this call may still arrive)
-- ARGV[6] publish command: PUBLISH or SPUBLISH
-- ARGV[7..] the command's arguments after its keys
-- Returns: the command's answer as text; "stale" for a call older than the record, and for one that is sent for the
--   first time and is there already; "refused <error>" for a repeated number that ended with an error
-- Publishes: where there is a channel, and permits under the second key now: their number, 2^31-1 at the most, then "0"
--   for each further one, 63 times at the most, as long as somebody hears it
-- Repeat-safe: yes, the record answers a repeated sequence number
-- Invariant: after an error nothing has changed

local MOST_MESSAGES = 64
local sequence = tonumber(ARGV[1])

local record = redis.call('GET', KEYS[1])
if record then
  local last, answer = string.match(record, '^(%d+) (.*)$')
  last = tonumber(last)
  -- A call that is sent for the first time can't be there: somebody else has written that, or this is a late copy.
  if last == sequence and ARGV[5] == '1' then
    -- Replicas are asked for the last thing that this connection has written.
    redis.pcall('SET', KEYS[1], record, 'PX', ARGV[2])
    return answer
  end
  if last and last >= sequence then return 'stale' end
end

-- The record first: a server that can't or may not write says so before anything has changed.
redis.call('SET', KEYS[1], ARGV[1] .. ' ', 'PX', ARGV[2])

local command = { ARGV[3], KEYS[2] }
if ARGV[4] == '1' then command[3] = KEYS[3] end
for i = 7, #ARGV do command[#command + 1] = ARGV[i] end

local answer = redis.pcall(unpack(command))
if type(answer) == 'table' and answer.err then
  if ARGV[5] == '1' then
    redis.call('SET', KEYS[1], ARGV[1] .. ' refused ' .. answer.err, 'PX', ARGV[2])
    -- An error would say nothing of the earlier copy.
    return 'refused ' .. answer.err
  elseif record then
    redis.call('SET', KEYS[1], record, 'PX', ARGV[2])
  else
    redis.call('DEL', KEYS[1])
  end
  return answer
end

local text = type(answer) == 'table' and answer.ok or tostring(answer)
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. text, 'PX', ARGV[2])

-- Where that is forbidden they are found by those who look, as if another client had done it.
local content = KEYS[4] and text ~= '0' and redis.pcall('GET', KEYS[3])
local total = type(content) == 'string' and tonumber(content)
if total and total >= 1 and total % 1 == 0 then
  local heard = redis.pcall(ARGV[6], KEYS[4], string.format('%.0f', math.min(2147483647, total)))
  for _ = 2, math.min(total, MOST_MESSAGES) do
    if heard == 0 or type(heard) == 'table' then break end
    heard = redis.pcall(ARGV[6], KEYS[4], '0')
  end
end
return text
