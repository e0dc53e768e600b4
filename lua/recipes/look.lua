-- Purpose: one of those who wait looks, where nothing is free, and its client stands in line as it did: what the parts behind this one
--   do then, in short
-- Counterpart: extension: the part of the scripts that end with batch.lua behind setting.lua and the store's, before record.lua
-- KEYS[1..] keys: those of batch.lua
-- ARGV[1..] those of batch.lua
-- Returns: as batch.lua's `answer`, in an array as nothing has changed; nothing in any other case, or where something is refused: it goes
--   on with the next part, which sees to all that anew
-- Publishes: nothing
-- Repeat-safe: yes, nothing is stored; only what has expired is removed, which nobody counts where there are no tokens
-- Invariant: those who look leave it to the other parts to put the end of line and notes off, once half of a life is over. A replica is noticed
--   then, or when something has expired

-- As redis.pcall, where a number is the answer; or nothing.
local function answered(...)
  local answer = redis.pcall(...)
  return type(answer) == 'number' and answer or nil
end

-- Where this client stands, and how many do, if its place is what engine/line.lua would write there, and nobody waits for it.
local function place_in_line(line, id)
  local note = redis.pcall('HGET', KEYS[#KEYS], id)
  local patience = type(note) == 'string' and string.match(note, '^' .. ARGV[6] .. ' %d+ 0 (%d+) ')
  -- How long an answer takes varies a bit each time.
  local mine = math.min(250000, ARGV[16] + 0)
  if not patience or patience + 0 < mine or patience + 0 > 2 * mine then return end
  local rank = answered('ZRANK', line, id)
  local there = rank and redis.pcall('ZRANGE', line, rank, rank, 'WITHSCORES')
  if not there or there[2] ~= ARGV[17] then return end
  -- Who is told keeps the line, and not the notes.
  local size, life, notes = answered('ZCARD', line), answered('PTTL', line), answered('PTTL', KEYS[#KEYS])
  if size and life and notes and math.min(life, notes) > ARGV[10] / 2 then return rank, size end
end

local function look()
  local rank, size = place_in_line(KEYS[2], string.sub(KEYS[3], #KEYS[2] + 2))
  if not rank then return end
  local setting = setting_of(ARGV[6], ARGV[7], ARGV[8])
  local refusal, more = store.open(setting)
  if refusal or more or store.room(setting, setting.limit) >= 1 then return end
  return string.format('done %d %.0f %d %d 0 0 - 0 0 0 - - -', setting.now, store.first_end(setting, ARGV[15]), rank, size)
end

-- Nobody gives anything back, or only tries, and there are no locks or tokens of peers.
if ARGV[4] == '0' and ARGV[5] == 'batch' and ARGV[9] == '0' and ARGV[13] == '0' and ARGV[14] == '0' and ARGV[17]
  and not string.find(ARGV[8], '[rt]') then
  local done, answer = pcall(look)
  if done and answer then return { answer } end
end
