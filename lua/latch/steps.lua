-- Purpose: what the calls that the tasks of one client made on one count-down latch come to
-- Counterpart: RCountDownLatch.trySetCount, countDown, await, delete; the last part of the script, behind envelope.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2..] those of envelope.lua; its steps are pairs of kind and number
--   set: the count, where there is no latch      down: so often by one
--   delete: 0                                    await: whether it is open now, or a step of this batch has opened it; 0
-- Returns: "open", or in how many milliseconds it vanishes by itself, for an await of a latch that stood before (-1:
--   never); then for each set and delete whether it did something, for each down "1"
-- Publishes: "0" when the count has come to zero; "1" when there is a new one, and when the latch is deleted
-- Repeat-safe: yes, by envelope.lua
-- Invariant: a latch whose count has come to zero is gone; to count down keeps its time to live

local text = redis.call('GET', OBJECT)
local number = not text or string.match(text, '^-?%d+$')
-- How much is left is exact below 2^53, and above that no batch comes to zero.
local exists, left = text ~= false, tonumber(number and text or 0)
local down, new, opened, asked = 0, false, false, false
local messages, changes, results = {}, {}, ''
for i = FIRST, #ARGV, 2 do
  local kind, result = ARGV[i], 1
  if (kind == 'down' or kind == 'await') and not number then
    local found = 'unreadable ' .. string.sub(text, 1, 64)
    return on_record(found) or found
  elseif kind == 'set' then
    result = exists and 0 or 1
    if not exists then
      exists, number, left, new = true, true, tonumber(ARGV[i + 1]), true
      messages[#messages + 1] = '1'
    end
  elseif kind == 'delete' then
    result = exists and 1 or 0
    if exists then
      exists, number, left = false, true, 0
      messages[#messages + 1] = '1'
    end
  elseif kind == 'down' and exists then
    local by = tonumber(ARGV[i + 1])
    if left > 0 and left <= by then
      messages[#messages + 1] = '0'
      opened = true
    end
    left, down = left - by, down + by
    if left <= 0 then exists, left = false, 0 end
  end
  if kind == 'await' then asked = true else results = results .. ' ' .. result end
end

if exists and new then
  changes[1] = { 'SET', OBJECT, string.format('%.0f', left) }
elseif exists and down > 0 then
  changes[1] = { 'DECRBY', OBJECT, down }
elseif text and not exists then
  changes[1] = { 'DEL', OBJECT }
end
local open = opened or left <= 0
local words = (open and 'open' or asked and not new and string.format('%.0f', redis.call('PTTL', OBJECT)) or '-1') .. results

local known, old = on_record('done ' .. words, changes[1])
if known then return known end
local refusal
for i = 1, #messages do
  local heard = not refusal and redis.pcall(ARGV[1], CHANNEL, messages[i])
  refusal = refusal or type(heard) == 'table' and heard.err
end
return carry_out(words, changes, old, refusal)
