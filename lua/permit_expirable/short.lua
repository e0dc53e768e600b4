-- Purpose: the usual case in short: one step takes permits of which there are enough, or gives one back that is held; nobody waits, no JVM
--   either. The first part of the script; what it does not carry out, the others do
-- Counterpart: RPermitExpirableSemaphore.acquire, tryAcquire, tryRelease
-- KEYS[1..] keys: those of steps.lua
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2..] those of steps.lua; the step from ARGV[11] on, of which it knows take, wait and release
-- Returns: what steps.lua does; nothing where it has changed nothing
-- Publishes: the number of permits available when one has come back
-- Repeat-safe: yes, by the record
-- Invariant: what it changes is what steps.lua would, but that permits whose time is over stay where they are

do
  local pcall, ARGV, permits, kind, what, lease, ticket = redis.pcall, ARGV, KEYS[5], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
  local size = kind == 'take' and 4 or kind == 'wait' and lease == '1' and 9 or kind == 'release' and 3
  if size == 9 then lease, ticket = string.match(ARGV[18], ':(%d+)$'), ARGV[15] end
  local usual = size and not ARGV[11 + size] and ARGV[4] == '0' and pcall('EXISTS', KEYS[4], KEYS[6]) == 0
  local before = usual and pcall('GET', KEYS[2])
  before = type(before) == 'string' and string.find(before, '^%d+$') and before == tonumber(before) .. '' and tonumber(before)
  local amount, score = size == 3 and -1 or tonumber(what), size == 3 and before and pcall('ZSCORE', permits, what)
  local fits = before and amount <= before and before - amount <= 2147483647
  if fits and (size == 3 and tonumber(score) or size ~= 3 and amount < 1000 and pcall('PTTL', KEYS[2]) == -1) then
    local time, heard, adds = pcall('TIME'), -1, {}
    local clock = time[1] and time[1] * 1000000 + time[2]
    local now, hash = clock and math.floor(clock / 1000) or math.huge, size ~= 3 and redis.sha1hex(ARGV[7] .. ':' .. ticket)
    fits = clock and (size ~= 3 or tonumber(score) > now)
    local ends = lease == '0' and '922337203685477' or fits and string.format('%.0f', math.min(922337203685477, now + lease))
    for place = 1, fits and amount or 0 do
      adds[2 * place - 1], adds[2 * place] = ends, struct.pack('>I6I6I2I2', tonumber(string.sub(hash, 1, 12), 16),
        tonumber(string.sub(hash, 13, 24), 16), tonumber(string.sub(hash, 25, 28), 16), place)
    end
    if fits and size == 3 then heard = redis.pcall(ARGV[1], KEYS[3], before + 1) end
    -- Listeners of a pattern are no waiters. From now on JVMs have an account, which is the business of the other parts.
    if type(heard) == 'number' and heard > 0 then
      heard = tonumber(pcall('PUBSUB', ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[3])[2]) or heard
      if heard > 0 and type(pcall('HSET', KEYS[6], 'left', before + 1)) == 'number' then pcall('PEXPIRE', KEYS[6], 1000) end
    end
    if fits and type(heard) == 'number' then
      local answer = string.format('done %.0f -1 -1 %d 0 %.0f 1 | ', before - amount, heard, clock)
      local old = pcall('SET', KEYS[1], ARGV[2] .. ' ' .. answer, 'PX', ARGV[3], 'GET')
      local done = not old or type(old) == 'string' and old < ARGV[2]
      done = done and (size == 3 and pcall('ZREM', permits, what) or size ~= 3 and pcall('ZADD', permits, 'NX', unpack(adds)))
      if type(done) == 'number' then
        local counted = pcall('INCRBY', KEYS[2], -amount)
        if type(counted) == 'number' then return answer end
        answer = 'unsure ' .. counted.err
        pcall('SET', KEYS[1], ARGV[2] .. ' ' .. answer, 'PX', ARGV[3])
        return answer
      end
      if type(old) ~= 'table' then pcall('SET', KEYS[1], old or '0', 'PX', ARGV[3]) end
    end
  end
end
