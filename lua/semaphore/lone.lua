-- Purpose: carries out lone calls, each on a semaphore of its own: the usual cases of batch.lua in short, for many
--   semaphores in one script
-- Counterpart: RSemaphore.tryAcquire, release; the part behind engine/change.lua and announce.lua
-- KEYS[1] record: string, "<sequence number> <what became of each call>" of the last script that went this way
-- KEYS[2..] semaphores: two for each call, the semaphore and its channel, those of batch.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] sequence number of this script, rising within a client, of a fixed width
-- ARGV[3] time to live of the record in milliseconds
-- ARGV[4..] permits that each call gives, less than zero if it takes some
-- Returns: two for each call: the counter behind it, or -1 and the counter below that if there was too little to
--   take, or nothing if the case was not usual and nothing was done; how many listen to what was announced, those of
--   a pattern not counted (-1: unknown)
-- Publishes: as batch.lua does for each release
-- Repeat-safe: yes, but a repetition only does nothing: settle.lua tells what has happened
-- Invariant: each counter changes by exactly what is said of it, and keeps its time to live; what is no usual case
--   has changed nothing and hinders no other

local HIGHEST = 2147483647
local pcall = redis.pcall
local KEYS, ARGV = KEYS, ARGV
local calls = #ARGV - 3

-- Whether it was possible.
local function put_back(key, text, ...)
  local reply = text and redis.pcall('SET', key, text, ...) or redis.pcall('DEL', key)
  return not (type(reply) == 'table' and reply.err)
end

-- What can be done, and what will have become of each call: "1" done, "0" too little, "-" not usual.
local answers, texts, fates = {}, {}, {}
local changes = false
for i = 1, calls do
  local text = pcall('GET', KEYS[2 * i])
  local before = not text and 0 or type(text) == 'string' and tonumber(text)
  local after = before and before + ARGV[3 + i]
  local fate = '-'
  answers[2 * i - 1], answers[2 * i] = false, -1
  if before and before >= 0 and after <= HIGHEST then
    if after < 0 then
      if not text or before % 1 == 0 and before .. '' == text and text ~= '-0' then
        answers[2 * i - 1], fate = -1 - before, '0'
      end
    else
      answers[2 * i - 1], fate = after, '1'
      changes = true
    end
  end
  texts[i], fates[i] = text, fate
end
if not changes then return answers end

-- The record first: a server that can't or may not write says so before anything has changed.
local old = change('SET', KEYS[1], ARGV[2] .. ' ' .. table.concat(fates), 'PX', ARGV[3], 'GET')
if old and (type(old) == 'table' or old >= ARGV[2]) then
  if type(old) == 'string' then put_back(KEYS[1], old, 'PX', ARGV[3]) end
  for i = 1, 2 * calls, 2 do answers[i], answers[i + 1] = false, -1 end
  return answers
end

local failed, some = false, false
for i = 1, calls do
  if fates[i] == '1' then
    local key, permits, after = KEYS[2 * i], ARGV[3 + i], answers[2 * i - 1]
    -- Redis is stricter than Lua about what an integer is.
    local done = type(pcall('INCRBY', key, permits)) == 'number'
    permits = permits + 0
    if done and permits > 0 and after > 0 then
      local heard = announce(KEYS[2 * i + 1], after, permits, '')
      -- What can't be undone has happened, if unannounced.
      done = heard or not put_back(key, texts[i], 'KEEPTTL')
      if heard then answers[2 * i] = heard > 0 and count_listeners(KEYS[2 * i + 1]) or 0 end
    end
    if done then
      some = true
    else
      answers[2 * i - 1], fates[i], failed = false, '-', true
    end
  end
end
-- Where what stood there before can't be put back, it says that nothing was done.
if failed and (some or not put_back(KEYS[1], old, 'PX', ARGV[3])) then
  pcall('SET', KEYS[1], ARGV[2] .. ' ' .. table.concat(fates), 'PX', ARGV[3])
end
return answers
