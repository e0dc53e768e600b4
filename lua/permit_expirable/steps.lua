-- Purpose: what the calls that the tasks of one client made on one semaphore whose permits have ids come to, one behind
--   the other; before that some of those permits whose time is over become free
-- Counterpart: RPermitExpirableSemaphore.acquire, tryAcquire, tryRelease, updateLeaseTime, getLeaseTime, availablePermits,
--   acquiredPermits, getPermits, trySetPermits, setPermits, addPermits; the last part of the script, behind envelope.lua.
--   OBJECT is the counter: string, the permits available as a decimal integer; FURTHER the permits that are held: zset, id
--   -> when it ends, in milliseconds since 1970; 922337203685477: never
-- ARGV[1..] those of envelope.lua; then how many permits are asked for in all; then steps, each a kind and what it needs
--   release: how many, ids; each on its own         together: how many, ids; all of them or none
--   prolong: id, lease in milliseconds, -1: without end      remaining: id
--   acquire: lease, "1": if the first of them does not fit, no later one gets anything; how many callers, and for
--     each the ids that it brings along, one behind the other, 16 bytes each
--   available, acquired, total: 0                   try_set, set: permits              add: by how many
--   clear: 0; takes some away from their holders    list: behind whom, "<when> <id in hex>", or ""
-- Returns: in how many milliseconds to look again, -1: never; how many are available; then for each step:
--   release, acquire: for each "1" or "0", for one id "o" if Redisson 3.16.8 or before has given it
--   together: how many, or "o"     prolong: "1", "0", "o"     remaining: milliseconds, "never", "none" or "o"
--   available, acquired, total: that     try_set: "1", "0"     set, add: "1", or "0:<available>" if the range forbids it
--   clear: "<how many>:<how many are left>"
--   list: behind whom to go on, "-": nobody; for each ",<id in hex>=<milliseconds left, -1: without end>"
-- Publishes: where some have become free and are left: how many, 2^31-1 at the most; then "0" for each further one
-- Repeat-safe: yes, by envelope.lua
-- Invariant: a permit is either counted in the counter, or its id is in the zset

return carry_out(function()
  local ENDLESS, LOWEST, HIGHEST = 922337203685477, -2147483648, 2147483647
  -- So many end, and are listed, at a time; so many asynchronous callers of a JVM are started.
  local MOST_ENDED, PAGE, MOST_ZEROS = 1000, 256, 64
  local PERMITS = FURTHER
  local format, max, min = string.format, math.max, math.min
  local function text_of(number) return format('%.0f', number) end
  local function hex(bytes)
    return (string.gsub(bytes, '.', function(byte) return format('%02x', string.byte(byte)) end))
  end

  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local text = redis.call('GET', OBJECT)
  if text and not (#text < 16 and string.match(text, '^-?%d+$')) then return nil, text end
  local total, exists, stood = tonumber(text or 0), text ~= false, text ~= false
  local added, took = 0, false

  -- When the permits end of which steps speak: as it is stored, and as it is to be; false: not held.
  local stored, ends, touched = {}, {}, {}
  local function note(id, score)
    stored[id], ends[id], touched[#touched + 1] = score, score, id
  end
  local function end_of(id)
    if stored[id] == nil then note(id, tonumber(redis.call('ZSCORE', PERMITS, id)) or false) end
    return ends[id]
  end
  local function look_up(first, last)
    if last <= first then return end
    local scores = redis.call('ZMSCORE', PERMITS, unpack(ARGV, first, last))
    for i = first, last do
      if stored[ARGV[i]] == nil then note(ARGV[i], tonumber(scores[i - first + 1]) or false) end
    end
  end
  local function is_old(id) return #id == 16 and redis.call('ZSCORE', PERMITS, hex(id)) end

  -- Those whose time is over and that are not taken out yet; and by how much steps change how many are held.
  local over, change = 0, 0
  local function take_back(id)
    if ends[id] > now then change = change - 1 else over = over - 1 end
    ends[id], total, added, exists, stood = false, total + 1, added + 1, true, true
  end
  local function held()
    return redis.call('ZCOUNT', PERMITS, '(' .. text_of(now), '+inf') + change
  end

  local most = max(MOST_ENDED, tonumber(ARGV[FIRST]))
  local ended = redis.call('ZRANGEBYSCORE', PERMITS, '-inf', text_of(now), 'LIMIT', 0, most)
  for i = 1, #ended do
    note(ended[i], now)
    ends[ended[i]] = false
  end
  total, added, exists = total + #ended, #ended, exists or #ended > 0
  if #ended == most then over = redis.call('ZCOUNT', PERMITS, '-inf', text_of(now)) - most end

  local function lease_end(millis)
    millis = tonumber(millis)
    return millis < 0 and ENDLESS or min(ENDLESS, now + millis)
  end

  -- No more than can be, whatever else becomes of those that are held.
  local function set_to(permits)
    total = permits - held() - over
    exists, stood = true, true
  end

  local asked, short, stopped, nearest = false, false, false, nil
  local function acquire(lease, stops, first, last)
    local results, score = {}, lease_end(lease)
    asked = true
    for i = first, last do
      local ids = ARGV[i]
      local count = #ids / 16
      if exists and not stopped and total >= count then
        for at = 1, #ids, 16 do
          local id = count == 1 and ids or string.sub(ids, at, at + 15)
          stored[id], ends[id], touched[#touched + 1] = stored[id] or false, score, id
        end
        total, change, took = total - count, change + count, true
        if score < ENDLESS then nearest = min(nearest or score, score) end
        results[#results + 1] = '1'
      else
        short = true
        -- What will never fit stops nobody.
        if stops and i == first then stopped = count <= max(0, total) + over + held() end
        results[#results + 1] = '0'
      end
    end
    return table.concat(results)
  end

  local function release(first, last)
    local results = {}
    look_up(first, last)
    for i = first, last do
      local ends_at = end_of(ARGV[i])
      local result = ends_at and ends_at > now and '1' or '0'
      if ends_at then take_back(ARGV[i]) elseif first == last and is_old(ARGV[i]) then result = 'o' end
      results[#results + 1] = result
    end
    return table.concat(results)
  end

  local function release_together(first, last)
    look_up(first, last)
    for i = first, last do
      local ends_at = end_of(ARGV[i])
      if not ends_at or ends_at <= now then return is_old(ARGV[i]) and 'o' or '0' end
    end
    local count = 0
    for i = first, last do
      if ends[ARGV[i]] then
        take_back(ARGV[i])
        count = count + 1
      end
    end
    return count
  end

  local function remaining(id)
    local ends_at = end_of(id)
    if ends_at and ends_at > now then return ends_at == ENDLESS and 'never' or text_of(ends_at - now) end
    return is_old(id) and 'o' or 'none'
  end

  local function prolong(id, lease)
    local ends_at = end_of(id)
    if not ends_at or ends_at <= now then return is_old(id) and 'o' or '0' end
    ends[id] = lease_end(lease)
    return '1'
  end

  local function add(permits)
    local sum = total + permits
    if permits > 0 and sum > HIGHEST or permits < 0 and sum < LOWEST then return '0:' .. text_of(total) end
    total, added, exists, stood = sum, added + max(0, permits), true, true
    return '1'
  end

  local function set(permits)
    if not stood then
      set_to(permits)
      added = added + max(0, total)
      return '1'
    end
    return add(permits - total - over - held())
  end

  local function clear()
    local ids = redis.call('ZRANGE', PERMITS, 0, MOST_ENDED - 1)
    local count = 0
    for i = 1, #ids do
      if end_of(ids[i]) then
        take_back(ids[i])
        count = count + 1
      end
    end
    return count .. ':' .. text_of(redis.call('ZCARD', PERMITS) - #ids)
  end

  local function list(from)
    local score, member = string.match(from, '^(%S+) (%x*)$')
    local start = 0
    if score then
      member = string.gsub(member, '..', function(digits) return string.char(tonumber(digits, 16)) end)
      start = redis.call('ZSCORE', PERMITS, member) == score and redis.call('ZRANK', PERMITS, member) + 1
        or redis.call('ZCOUNT', PERMITS, '-inf', '(' .. score)
    end
    local page = redis.call('ZRANGE', PERMITS, start, start + PAGE - 1, 'WITHSCORES')
    local words = { #page < 2 * PAGE and '-' or page[#page] .. '/' .. hex(page[#page - 1]) }
    for i = 1, #page, 2 do
      local ends_at = tonumber(page[i + 1])
      if ends_at > now then
        words[#words + 1] = hex(page[i]) .. '=' .. (ends_at == ENDLESS and '-1' or text_of(ends_at - now))
      end
    end
    return table.concat(words, ',')
  end

  local results, i = '', FIRST + 1
  while ARGV[i] do
    local kind, what, result, size = ARGV[i], ARGV[i + 1], nil, 2
    if kind == 'release' or kind == 'together' then
      size = 2 + tonumber(what)
      local step = kind == 'release' and release or release_together
      result = step(i + 2, i + size - 1)
    elseif kind == 'acquire' then
      size = 4 + tonumber(ARGV[i + 3])
      result = acquire(what, ARGV[i + 2] == '1', i + 4, i + size - 1)
    elseif kind == 'prolong' then
      size, result = 3, prolong(what, ARGV[i + 2])
    elseif kind == 'remaining' then
      result = remaining(what)
    elseif kind == 'try_set' then
      result = stood and '0' or set(tonumber(what))
    elseif kind == 'set' then
      result = set(tonumber(what))
    elseif kind == 'add' then
      result = add(tonumber(what))
    elseif kind == 'clear' then
      result = clear()
    elseif kind == 'list' then
      result = list(what)
    elseif kind == 'acquired' then
      result = text_of(held())
    else
      result = text_of(kind == 'available' and total + over or exists and total + over + held() or 0)
    end
    results, i = results .. ' ' .. result, i + size
  end

  local entered, gone = {}, {}
  for n = 1, #touched do
    local id = touched[n]
    local score = ends[id]
    if score and score ~= stored[id] then
      entered[#entered + 1], entered[#entered + 2] = text_of(score), id
    elseif not score and stored[id] then
      gone[#gone + 1] = id
    end
    -- One that is named twice is written once.
    stored[id] = score
  end

  local counted = total ~= tonumber(text or 0) or exists ~= (text ~= false)
  local life = took and text and redis.call('PTTL', OBJECT) or 0
  -- What may be refused is tried before anything changes; no permit has this id.
  if #entered > 0 then redis.call('ZADD', PERMITS, 'XX', 0, RECORD) end
  if #gone > 0 then redis.call('ZREM', PERMITS, RECORD) end
  if life > 0 then redis.call('PEXPIRE', RECORD, ARGV[3]) end
  if counted then
    if text then write('SET', OBJECT, text_of(total), 'KEEPTTL') else write('SET', OBJECT, text_of(total)) end
  end
  local CHUNK = 2000
  for first = 1, #entered, CHUNK do write('ZADD', PERMITS, unpack(entered, first, min(#entered, first + CHUNK - 1))) end
  for first = 1, #gone, CHUNK do write('ZREM', PERMITS, unpack(gone, first, min(#gone, first + CHUNK - 1))) end
  if life > 0 then write('PEXPIRE', PERMITS, life) end
  if added > 0 and total > 0 then
    publish(text_of(min(total, HIGHEST)))
    publish('0', min(added, total, MOST_ZEROS) - 1)
  end

  local look = -1
  if asked and over > 0 then
    look = 0
  elseif short then
    local first = redis.call('ZRANGEBYSCORE', PERMITS, '(' .. text_of(now), '(' .. text_of(ENDLESS), 'WITHSCORES',
      'LIMIT', 0, 1)[2]
    nearest = min(nearest or ENDLESS, tonumber(first) or ENDLESS)
    if nearest < ENDLESS then look = max(1, nearest - now) end
  end
  return text_of(look) .. ' ' .. text_of(total) .. results
end)
