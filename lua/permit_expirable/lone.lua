-- Purpose: one caller alone, who takes a permit or gives one back, as far as nothing else is to be seen to: the same as the
--   parts of the script behind this one, in short
-- Counterpart: RPermitExpirableSemaphore.acquire, tryAcquire, tryRelease; the first part of the script, before record.lua
-- KEYS[1] record: string, see record.lua
-- KEYS[2] counter: string, the permits available
-- KEYS[3] channel: where others wait for permits
-- KEYS[4] permits: zset, id -> when it ends, in milliseconds since 1970
-- KEYS[5..] line: where there is one, nothing is done here
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] sequence number of this batch, rising within a client, of a fixed width
-- ARGV[3] time to live of the record in milliseconds
-- ARGV[4] anything but "0": nothing is done here, see record.lua
-- ARGV[5..] see steps.lua
-- Returns: as envelope.lua and steps.lua do; what is no usual case has changed nothing, and is left to them
-- Publishes: the number of permits available, when one has come back
-- Repeat-safe: yes, the record is as record.lua has it
-- Invariant: those of envelope.lua and steps.lua. Permits whose time is over are left where they are: who needs them
--   finds them

do
  local ENDLESS, ENDLESS_TEXT, HIGHEST = 922337203685477, '922337203685477', 2147483647
  local pcall, KEYS, ARGV = redis.pcall, KEYS, ARGV
  local kind, count = ARGV[6], #ARGV
  local takes = (kind == 'acquire' or kind == 'try') and count == 10 and ARGV[5] == '1' and #ARGV[10] == 16
  local gives = kind == 'release' and count == 8
  local text = (takes or gives) and ARGV[4] == '0' and not KEYS[5] and pcall('GET', KEYS[2])
  local total = type(text) == 'string' and tonumber(text)
  local usual, id, ends = false, ARGV[count], nil
  if total and takes and total >= 1 and total <= HIGHEST then
    usual = pcall('PTTL', KEYS[2]) == -1
  elseif total and gives and total >= 0 and total < HIGHEST then
    ends = pcall('ZSCORE', KEYS[4], id)
    usual = type(ends) == 'string'
  end

  -- What does not end needs no clock.
  local endless = takes and ARGV[7] == '-1' or ends == ENDLESS_TEXT
  local time = usual and not endless and pcall('TIME')
  if usual and (endless or not time.err) then
    local now = time and time[1] * 1000 + math.floor(time[2] / 1000)
    local after = string.format('%.0f', total + (takes and -1 or 1))
    local answer = 'done -1 ' .. after .. ' -1 ' .. ((takes or endless or tonumber(ends) > now) and '1' or '0')
    -- The record first: a server that can't or may not write says so before anything has changed.
    local old = pcall('SET', KEYS[1], ARGV[2] .. ' ' .. answer, 'PX', ARGV[3], 'GET')
    if not (type(old) == 'table' and old.err) then
      local done, changed = false, false
      if not old or old < ARGV[2] then
        -- To the listeners it is one moment.
        done = takes or type(redis.pcall(ARGV[1], KEYS[3], after)) == 'number'
        -- Redis is stricter than Lua about what an integer is.
        changed = done and type(pcall('INCRBY', KEYS[2], takes and '-1' or '1')) == 'number'
        if changed and gives then
          done = pcall('ZREM', KEYS[4], id) == 1
        elseif changed then
          local score = now and string.format('%.0f', math.min(ENDLESS, now + ARGV[7])) or ENDLESS_TEXT
          done = pcall('ZADD', KEYS[4], 'NX', score, id) == 1
        end
        if changed and done then return answer end
      end
      if changed then pcall('INCRBY', KEYS[2], takes and '1' or '-1') end
      -- What can't be taken back is to say nothing of this call.
      if old or type(pcall('DEL', KEYS[1])) == 'table' then
        pcall('SET', KEYS[1], old or string.rep('0', #ARGV[2]) .. ' none', 'PX', ARGV[3])
      end
    end
  end
end
