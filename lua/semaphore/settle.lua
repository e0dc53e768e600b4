-- Purpose: tells what has become of the calls of a script whose answer was lost, and sees to it that it does nothing
--   any more if it has not been carried out
-- Counterpart: none; see lone.lua
-- KEYS[1] record: that of lone.lua
-- ARGV[1] sequence number of the script in question
-- ARGV[2] time to live of the record in milliseconds
-- Returns: a letter for each call: "1" done, "0" too little, "-" not usual; nothing, "", if it was not carried out; "?" if
--   somebody else has written to the record: then nobody knows
-- Publishes: nothing
-- Repeat-safe: yes, every time the same
-- Invariant: after it, the script in question changes nothing

local number = ARGV[1]
local old = redis.call('GET', KEYS[1])
if old and string.sub(old, 1, #number) == number then return string.sub(old, #number + 2) end
-- No later script of this client's goes this way before it is known what has become of this one.
if old and old > number then return '?' end
redis.call('SET', KEYS[1], number .. ' ', 'PX', ARGV[2])
return ''
