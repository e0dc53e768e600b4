-- Purpose: the usual cases of one call about permits on record, in short: it takes what is free, or gives back
-- Counterpart: extension: the part behind announce.lua of the script with holders.lua
-- KEYS[1] record: that of record.lua; here it only keeps out what was asked about
-- KEYS[2] semaphore: string, the permits available as a decimal integer
-- KEYS[3] channel: where waiters of every client listen
-- KEYS[4..] held: hash, that of holders.lua; where there are more keys, turns are kept
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2..] those of batch.lua and holders.lua, nine in all: sequence number, of a fixed width; time to live of the record;
--   "0": no earlier copy may arrive; "*acquire" or "*release"; how many permits; "1": one call; holder; "0": it is on record.
--   Of a question the first three, and the holder
-- Returns: that of batch.lua; nothing where the case is not usual or something failed: then nothing has changed, and it
--   goes on with the next part, as it does with a question about something else
-- Publishes: as batch.lua does for a release
-- Repeat-safe: yes, what is done stands with the holder, "<sequence number> <counter behind it>" in a line of its own
-- Invariant: the sum of counter and record stays as it is

do
  local pcall, KEYS, ARGV = redis.pcall, KEYS, ARGV
  local count = #KEYS == 4 and #ARGV
  if count == 5 then
    local entry = pcall('HGET', KEYS[4], ARGV[5])
    if type(entry) == 'string' then
      local permits, number, total = string.match(entry, '^(%d+) [^\n]*\n(%d+) (%d+)$')
      -- Replicas are asked for the last thing that this connection has written.
      local written = number == ARGV[2] and pcall('HSET', KEYS[4], ARGV[5], entry)
      if type(written) == 'table' then return written end
      if written then return 'done -1 ' .. total .. ' 1 held:' .. permits end
    end
    KEYS[4], ARGV[5] = nil, nil
  elseif count == 9 and ARGV[9] == '0' and ARGV[4] == '0' and ARGV[7] == '1'
    and (ARGV[5] == '*acquire' or ARGV[5] == '*release') then
    local text, entry, asked = pcall('GET', KEYS[2]), pcall('HGET', KEYS[4], ARGV[8]), pcall('GET', KEYS[1])
    local before, held, about = type(text) == 'string' and tonumber(text), nil, nil
    if type(entry) == 'string' then held, about = string.match(entry, '^(%d+)( [^\n]*)') end
    local added = ARGV[5] == '*release' and ARGV[6] + 0 or -ARGV[6]
    local total = before and before + added
    local left = held and held - added
    if total and before >= 0 and total >= 0 and total <= 2147483647 and left and left >= 0
      and (not asked or type(asked) == 'string' and asked < ARGV[2]) then
      local word = total .. ''
      local written = pcall('HSET', KEYS[4], ARGV[8], left .. about .. '\n' .. ARGV[2] .. ' ' .. word)
      -- Redis is stricter than Lua about what an integer is.
      local counted = type(written) == 'number' and pcall('INCRBY', KEYS[2], added)
      local listeners = -1
      if counted == total then
        if added > 0 and total > 0 then
          listeners = announce(KEYS[3], total, added, '')
          if listeners and listeners > 0 then listeners = count_listeners(KEYS[3]) end
        end
        if listeners then return 'done ' .. listeners .. ' ' .. word .. ' 1 held:' .. left end
        pcall('INCRBY', KEYS[2], -added)
      end
      if type(written) == 'number' then pcall('HSET', KEYS[4], ARGV[8], entry) end
    end
  end
end
