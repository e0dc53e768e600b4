-- Purpose: the usual cases of one call about permits on record, in short: it takes what is free, or gives back
-- Counterpart: extension: the first part of the script with holders.lua
-- KEYS[1] semaphore: string, the permits available as a decimal integer
-- KEYS[2] channel: where waiters of every client listen
-- KEYS[3] record: that of batch.lua
-- KEYS[4] held: hash, that of holders.lua; where there are more keys, turns are kept
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] sequence number
-- ARGV[3] time to live of the record in milliseconds
-- ARGV[4] "0": no earlier copy may arrive
-- ARGV[5] kind of the step: "*acquire" or "*release"
-- ARGV[6] how many permits
-- ARGV[7] "1": one call
-- ARGV[8] holder: that of holders.lua
-- ARGV[9] "0": it is on record
-- Returns: that of batch.lua; nothing where the case is not usual or something failed: then nothing has changed, and it
--   goes on with the next part
-- Publishes: as batch.lua does for a release
-- Repeat-safe: yes, what is done is on record
-- Invariant: the sum of counter and record stays as it is

if #KEYS == 4 and #ARGV == 9 and ARGV[9] == '0' and ARGV[4] == '0' and ARGV[7] == '1'
  and (ARGV[5] == '*acquire' or ARGV[5] == '*release') then
  local pcall = redis.pcall
  local text, entry = pcall('GET', KEYS[1]), pcall('HGET', KEYS[4], ARGV[8])
  local before = type(text) == 'string' and tonumber(text)
  local space = type(entry) == 'string' and string.find(entry, ' ', 1, true)
  local held = space and tonumber(string.sub(entry, 1, space - 1))
  local added = ARGV[5] == '*release' and ARGV[6] + 0 or -ARGV[6]
  local total = before and before + added
  if total and before >= 0 and total >= 0 and total <= 2147483647 and held and held >= added
    and before % 1 == 0 and held % 1 == 0 and before .. '' == text then
    local answer = total .. ' 1 held:' .. held - added
    local old = pcall('SET', KEYS[3], ARGV[2] .. ' -1 ' .. answer, 'PX', ARGV[3], 'GET')
    local known = not old and -1 or type(old) == 'string' and tonumber(string.match(old, '^(%d+) '))
    if known and known < ARGV[2] + 0 then
      local written = pcall('HSET', KEYS[4], ARGV[8], held - added .. string.sub(entry, space))
      local counted = type(written) == 'number' and pcall('INCRBY', KEYS[1], added)
      local listeners = -1
      if counted == total then
        if added > 0 and total > 0 then
          listeners = redis.pcall(ARGV[1], KEYS[2], total .. '')
          for _ = 2, listeners ~= 0 and type(listeners) == 'number' and math.min(added, total, 64) or 0 do
            if redis.pcall(ARGV[1], KEYS[2], '0') == 0 then break end
          end
          if type(listeners) == 'number' and listeners > 0 then
            -- Who hears all channels by a pattern waits for nothing.
            local seen = pcall('PUBSUB', ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[2])
            listeners = seen.err and -1 or seen[2]
          end
        end
        if type(listeners) == 'number' then return listeners .. ' ' .. answer end
        pcall('INCRBY', KEYS[1], -added)
      end
      if type(written) == 'number' then pcall('HSET', KEYS[4], ARGV[8], entry) end
    end
    if type(old) == 'string' then
      pcall('SET', KEYS[3], old, 'PX', ARGV[3])
    elseif not old then
      pcall('DEL', KEYS[3])
    end
  end
end
