-- Purpose: the counter of a semaphore, as the queue uses it
-- Counterpart: RSemaphore's counter; the part behind queue/record.lua and queue/announce.lua
-- KEYS[2] semaphore: string, the permits available as a decimal integer
-- KEYS[3] channel: where JVMs wait
-- Returns: nothing by itself. It defines `open_counter`, `free`, `fits`, `spend`, `put_back`, `write_counter`, `say`
-- Publishes: nothing
-- Repeat-safe: yes, by record.lua
-- Invariant: the counter is written once, in the end; it keeps its time to live, and stays within 32 bits

local SEMAPHORE, CHANNEL = KEYS[2], KEYS[3]
local AGAIN, LOWEST, HIGHEST = 16, -2147483648, 2147483647

local text, before, total, exists, ttl = false, 0, 0, false, '0'
-- So many are left to JVMs. Permits that were free before are announced to them again.
local reserved, announces = 0, false

-- Reads the counter. Returns the answer to the batch where the counter cannot be used.
local function open_counter()
  text = redis.pcall('GET', SEMAPHORE)
  if type(text) == 'table' then return 'refused ' .. text.err end
  if not text then return end
  -- Below 10^14 a Lua number and its text are both exact. Redis takes only a text that it would write itself for an integer.
  before = tonumber(text)
  if not before or before % 1 ~= 0 or before <= -1e14 or before >= 1e14 or before .. '' ~= text or text == '-0' then
    return 'unreadable ' .. string.sub(text, 1, 64)
  end
  total, exists = before, true
end

local function free() return exists and total - reserved >= 1 end
local function fits(permits) return exists and total - reserved >= permits end
local function spend(permits) total = total - permits end

-- Adds permits that come back, if the semaphore still exists. Returns the result of the step where the counter can take no more.
local function put_back(permits)
  if not exists then return end
  if total + permits > HIGHEST then return '0:' .. total end
  total = total + permits
end

local function write_counter()
  if exists and not text then
    if ttl == '0' then change('SET', SEMAPHORE, total) else change('SET', SEMAPHORE, total, 'PX', ttl) end
  elseif total ~= before then
    change('INCRBY', SEMAPHORE, total - before)
  end
end

-- The announcement to JVMs, as finish.lua has it. Each message starts one async caller of a JVM, or so many threads as it says: the first ones may
-- not be those that fit.
local function say(left)
  if announces then return math.max(total, AGAIN), math.max(total, AGAIN) end
  return total, math.max(total - before, left)
end
