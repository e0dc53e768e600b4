-- Purpose: carries out one command on an object, once, however often the request arrives.
-- Counterpart: RObject.delete, unlink, rename, renamenx, copy; RExpirable.expire, expireAt, clearExpire; the part behind record.lua
-- KEYS[1] record: string, see record.lua
-- KEYS[2] object: the key that the command is about
-- KEYS[3] other: a second key of the command, where it has one
-- KEYS[4] channel: where others wait for permits under that key, given if there may be some now
-- ARGV[1..] those of record.lua; the call is the command, whether it takes the second key, "1" or "0", and its
--   arguments after its keys
-- Returns: the command's answer as text; what record.lua does; "refused <error>" for a repeated number that ended with an error
-- Publishes: where there is a channel, and permits under the second key now: as announce.lua has it
-- Repeat-safe: yes, by record.lua
-- Invariant: after an error nothing has changed

-- The record first: a server that can't or may not write says so before anything has changed.
local known, old = on_record('', true)
if known then return known end

local command = { ARGV[5], KEYS[2] }
if ARGV[6] == '1' then command[3] = KEYS[3] end
for i = 7, #ARGV do command[#command + 1] = ARGV[i] end

local answer = redis.pcall(unpack(command))
if type(answer) == 'table' and answer.err then return refuse(answer.err, old, true) end

local text = type(answer) == 'table' and answer.ok or tostring(answer)
redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. text, 'PX', ARGV[3])

-- Where that is forbidden they are found by those who look, as if another client had done it.
local content = KEYS[4] and text ~= '0' and redis.pcall('GET', KEYS[3])
local total = type(content) == 'string' and tonumber(content)
if total and total >= 1 and total % 1 == 0 then announce(KEYS[4], total, total, '') end
return text
