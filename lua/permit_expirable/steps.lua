-- Purpose: what the calls that the tasks of one client made on one semaphore whose permits have ids come to, one behind
--   the other; before that some of those permits whose time is over become free
-- Counterpart: RPermitExpirableSemaphore.acquire, tryAcquire, tryRelease, updateLeaseTime, getLeaseTime, availablePermits,
--   acquiredPermits, getPermits, trySetPermits, setPermits, addPermits; the last part of the script, behind counter.lua and
--   semaphore/turns.lua. OBJECT is the counter: string, the permits available as a decimal integer; PERMITS those that are
--   held: zset, id -> when it ends, in milliseconds since 1970; 922337203685477: never
-- KEYS[1..] keys: those of counter.lua
-- ARGV[1..] those of envelope.lua; then how many permits are wanted in all, more than are asked for where others wait behind
--   those who ask, -1 where it is of no matter which permits have ended; then steps, each a kind and what it needs
--   release: how many, ids; each on its own         together: how many, ids; all of them or none
--   prolong: id, lease in milliseconds, -1: without end      remaining: id
--   acquire: lease; how many of the first callers stop the line: if one of those does not fit, no later one gets
--     anything; how many callers, and for each the ids that it brings along, one behind the other, 16 bytes each
--   try: the same, for callers who do not wait on: they take no turns
--   available, acquired, total: 0                   try_set, set: permits              add: by how many
--   clear: how many at the most; takes some away from their holders    list: behind whom, "<when> <id in hex>", or ""
--   Where turns are kept, nine numbers follow, see semaphore/turns.lua
-- Returns: in how many milliseconds to look again, -1: never, or nobody wants more than was taken; how many are available; how
--   many listen to the channel, -1 where that is not known; then for each step:
--   release, acquire: for each "1" or "0", for one id "o" if Redisson 3.16.8 or before has given it
--   together: how many, or "0:" or "o:" and which one it is, from 0 on
--   prolong: "1", "0", "o"     remaining: milliseconds, "never", "none" or "o"
--   available, acquired, total: that     try_set: "1", "0"     set, add: "1", or "0:<available>" if the range forbids it
--   clear: "<how many>:<how many are left>"
--   list: behind whom to go on, "-": nobody; for each ",<id in hex>=<milliseconds left, -1: without end>"
--   Where turns are kept and others listen, a last word follows, see semaphore/turns.lua
-- Publishes: where some have become free and are left, as announce.lua has it. With "+" before each where turns are kept, as
--   those who take part are told in another way; nothing then if no other listens. "0" where one is held that ends sooner than those
--   who wait know, and they do not stand in line
-- Repeat-safe: yes, by envelope.lua
-- Invariant: a permit is either counted in the counter, or its id is in the zset

do
  local ENDLESS, LOWEST, HIGHEST = 922337203685477, -2147483648, 2147483647
  -- So many end, and are listed, at a time; so many asynchronous callers of a JVM are started.
  local MOST_ENDED, PAGE, CHUNK, LIST = 1000, 256, 2000, 128
  local format, max, min = string.format, math.max, math.min

  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local now_text = format('%.0f', now)
  -- To read it once more says what is wrong.
  if type(text) == 'table' then redis.call('GET', OBJECT) end
  if text and not (#text < 16 and string.match(text, '^-?%d+$')) then
    local found = 'unreadable ' .. string.sub(text, 1, 64)
    return on_record(found) or found
  end
  local total, exists, stood = tonumber(text or 0), text ~= false, text ~= false

  local changes = {}
  local function write(...) changes[#changes + 1] = { ... } end
  local function write_counter()
    if text then
      changes[1] = { 'SET', OBJECT, format('%.0f', total), 'KEEPTTL', undo = { 'SET', OBJECT, text, 'KEEPTTL' } }
    else
      changes[1] = { 'SET', OBJECT, format('%.0f', total), undo = { 'DEL', OBJECT } }
    end
  end

  local wanted = tonumber(ARGV[FIRST])
  local most = wanted < 0 and 1 or max(MOST_ENDED, wanted)
  local ended = redis.call('ZRANGEBYSCORE', PERMITS, '-inf', now_text, 'LIMIT', 0, most)
  local some_over = wanted < 0 and #ended > 0 or #ended == most
  if wanted < 0 then ended = {} end

  local function hex(bytes)
    return (string.gsub(bytes, '.', function(byte) return format('%02x', string.byte(byte)) end))
  end
  local function is_old(id) return #id == 16 and redis.call('ZSCORE', PERMITS, hex(id)) end

  -- When the permits end of which steps speak: as it is stored, and as it is to be; false: not held.
  local stored, ends, touched = {}, {}, {}
  local function look_up(first, last)
    local scores = redis.call('ZMSCORE', PERMITS, unpack(ARGV, first, last))
    for i = first, last do
      local id = ARGV[i]
      if stored[id] == nil then
        local score = tonumber(scores[i - first + 1]) or false
        stored[id], ends[id], touched[#touched + 1] = score, score, id
      end
    end
  end

  -- Those whose time is over and that are not taken out yet; and by how much steps change how many are held.
  local added, over, change = #ended, 0, 0
  -- When the first of those would have ended that are given back, and whether one that is held ends sooner than it would have.
  local freed_end, shortened
  local function ends_no_more(ends_at) freed_end = min(freed_end or ENDLESS, ends_at) end
  local function take_back(id)
    if ends[id] > now then change = change - 1 else over = over - 1 end
    ends_no_more(ends[id])
    ends[id], total, added, exists, stood = false, total + 1, added + 1, true, true
  end
  local function held()
    return redis.call('ZCOUNT', PERMITS, '(' .. now_text, '+inf') + change
  end

  -- The two commands that change who holds.
  local entered, gone = { 'ZADD', PERMITS }, { 'ZREM', PERMITS }
  for i = 1, #ended do
    stored[ended[i]], ends[ended[i]], gone[i + 2] = false, false, ended[i]
  end
  total, exists = total + #ended, exists or #ended > 0
  if #ended == most then over = redis.call('ZCOUNT', PERMITS, '-inf', now_text) - most end

  local got, stopped, nearest, retaken = 0, false, nil, false
  local function acquire(lease, in_turn, stops, first, last)
    local results = {}
    local score = lease < 0 and ENDLESS or min(ENDLESS, now + lease)
    local score_text = format('%.0f', score)
    -- Mostly each wants one, and there is one for each.
    local args, free, count, usual = ARGV, total, #entered, first
    while usual <= last and free >= 1 and exists and not (in_turn or stopped) do
      local id = args[usual]
      if #id ~= 16 or stored[id] ~= nil then break end
      entered[count + 1], entered[count + 2] = score_text, id
      free, count, usual = free - 1, count + 2, usual + 1
    end
    if usual > first then
      results[1], total, change = string.rep('1', usual - first), free, change + usual - first
      got = got + usual - first
      if score < ENDLESS then nearest = min(nearest or score, score) end
    end
    for i = usual, last do
      local ids = ARGV[i]
      local count = #ids / 16
      local fits = exists and not stopped
      if in_turn then fits = fits and due(total, count, 1) == 1 else fits = fits and total >= count end
      if fits then
        for at = 1, #ids, 16 do
          local id = count == 1 and ids or string.sub(ids, at, at + 15)
          if stored[id] == nil then
            entered[#entered + 1], entered[#entered + 2] = score_text, id
          else
            -- Of an earlier question whose outcome nobody knows; it has ended, or is given back by this batch.
            ends[id], touched[#touched + 1], retaken = score, id, true
          end
        end
        total, change, got = total - count, change + count, got + count
        if score < ENDLESS then nearest = min(nearest or score, score) end
      else
        -- What will never fit stops nobody.
        if i < first + stops and not stopped then stopped = count <= max(0, total) + over + held() end
      end
      results[#results + 1] = fits and '1' or '0'
    end
    return table.concat(results)
  end

  local function release(first, last)
    local results, args, count, usual = {}, ARGV, #gone, 1
    local scores = redis.call('ZMSCORE', PERMITS, unpack(ARGV, first, last))
    -- Mostly all of them are held, and none has ended.
    while not some_over and scores[usual] do
      local id = args[first + usual - 1]
      if stored[id] ~= nil then break end
      ends_no_more(scores[usual] + 0)
      stored[id], gone[count + usual], usual = false, id, usual + 1
    end
    local freed = usual - 1
    results[1], change = string.rep('1', freed), change - freed
    for i = usual, #scores do
      local id = ARGV[first + i - 1]
      local ends_at = stored[id] == nil and tonumber(scores[i]) or ends[id]
      local result = '0'
      if ends_at then
        if ends_at > now then result, change = '1', change - 1 else over = over - 1 end
        ends_no_more(ends_at)
        stored[id], ends[id], gone[#gone + 1], freed = false, false, id, freed + 1
      elseif first == last and is_old(id) then
        result = 'o'
      end
      results[#results + 1] = result
    end
    total, added = total + freed, added + freed
    if freed > 0 then exists, stood = true, true end
    return table.concat(results)
  end

  local function release_together(first, last)
    look_up(first, last)
    for i = first, last do
      local ends_at = ends[ARGV[i]]
      if not ends_at or ends_at <= now then return format('%s:%d', is_old(ARGV[i]) and 'o' or '0', i - first) end
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

  -- Of one permit: when it ends, or, with a lease, whether that could be put off.
  local function end_of(i, lease)
    look_up(i, i)
    local id = ARGV[i]
    local ends_at = ends[id]
    if not ends_at or ends_at <= now then return is_old(id) and 'o' or lease and '0' or 'none' end
    if lease then
      ends[id] = lease < 0 and ENDLESS or min(ENDLESS, now + lease)
      if ends[id] < ends_at then shortened, nearest = true, min(nearest or ENDLESS, ends[id]) end
      return '1'
    end
    return ends_at >= ENDLESS and 'never' or format('%.0f', ends_at - now)
  end

  -- The number of permits, by so many; or with those that are held, as many as that.
  local function add(permits)
    local sum = total + permits
    if permits > 0 and sum > HIGHEST or permits < 0 and sum < LOWEST then return format('0:%.0f', total) end
    total, added, exists, stood = sum, added + max(0, permits), true, true
    return '1'
  end
  local function set(permits)
    if stood then return add(permits - total - over - held()) end
    -- What has ended meanwhile is no reason to say that it exists.
    total, exists, stood = permits - held() - over, true, true
    added = added + max(0, total)
    return '1'
  end

  local function clear(most)
    local ids = most > 0 and redis.call('ZRANGE', PERMITS, 0, min(MOST_ENDED, most) - 1) or {}
    local count = 0
    for i = 1, #ids do
      local id = ids[i]
      if stored[id] == nil then
        local score = tonumber(redis.call('ZSCORE', PERMITS, id))
        stored[id], ends[id], touched[#touched + 1] = score, score, id
      end
      if ends[id] then
        take_back(id)
        count = count + 1
      end
    end
    return format('%d:%.0f', count, redis.call('ZCARD', PERMITS) - #ids)
  end

  -- The place behind one that has gone: of those with its score, which stand by their ids.
  local function place_behind(score, id)
    local first, last = redis.call('ZCOUNT', PERMITS, '-inf', '(' .. score), redis.call('ZCOUNT', PERMITS, '-inf', score)
    while first < last do
      local middle = math.floor((first + last) / 2)
      if hex(redis.call('ZRANGE', PERMITS, middle, middle)[1]) <= id then first = middle + 1 else last = middle end
    end
    return first
  end

  local function list(from)
    local score, member = string.match(from, '^(%S+) (%x*)$')
    local start = 0
    if score then
      member = string.gsub(member, '..', function(digits) return string.char(tonumber(digits, 16)) end)
      start = redis.call('ZSCORE', PERMITS, member) == score and redis.call('ZRANK', PERMITS, member) + 1
        or place_behind(score, hex(member))
    end
    local page = redis.call('ZRANGE', PERMITS, start, start + PAGE - 1, 'WITHSCORES')
    local words = { #page < 2 * PAGE and '-' or page[#page] .. '/' .. hex(page[#page - 1]) }
    for i = 1, #page, 2 do
      local ends_at = tonumber(page[i + 1])
      if ends_at > now then
        words[#words + 1] = hex(page[i]) .. '=' .. (ends_at >= ENDLESS and '-1' or format('%.0f', ends_at - now))
      end
    end
    return table.concat(words, ',')
  end

  local results, i, asked = '', FIRST + 1, false
  while i <= steps_end do
    local kind, what, result, size = ARGV[i], ARGV[i + 1], nil, 2
    if kind == 'release' or kind == 'together' then
      size = 2 + tonumber(what)
      local step = kind == 'release' and release or release_together
      result = step(i + 2, i + size - 1)
    elseif kind == 'acquire' or kind == 'try' then
      size, asked = 4 + tonumber(ARGV[i + 3]), true
      result = acquire(tonumber(what), turn and kind == 'acquire', tonumber(ARGV[i + 2]), i + 4, i + size - 1)
    elseif kind == 'prolong' then
      size, result = 3, end_of(i + 1, tonumber(ARGV[i + 2]))
    elseif kind == 'remaining' then
      result = end_of(i + 1)
    elseif kind == 'try_set' then
      result = stood and '0' or set(tonumber(what))
    elseif kind == 'set' then
      result = set(tonumber(what))
    elseif kind == 'add' then
      result = add(tonumber(what))
    elseif kind == 'clear' then
      result = clear(tonumber(what))
    elseif kind == 'list' then
      result = list(what)
    elseif kind == 'acquired' then
      result = format('%.0f', held())
    else
      result = format('%.0f', kind == 'available' and total + over or exists and total + over + held() or 0)
    end
    results, i = results .. ' ' .. result, i + size
  end

  local took = #entered > 2
  if retaken then
    local left = { gone[1], gone[2] }
    for n = 3, #gone do
      if not ends[gone[n]] then left[#left + 1] = gone[n] end
    end
    gone = left
  end
  for n = 1, #touched do
    local id = touched[n]
    local score = ends[id]
    if score and score ~= stored[id] then
      entered[#entered + 1], entered[#entered + 2] = format('%.0f', score), id
    elseif not score and stored[id] then
      gone[#gone + 1] = id
    end
  end

  local life = took and text and redis.call('PTTL', OBJECT) or 0
  -- A few are kept in a list, which is read from its beginning: those who go make room first. More than that are never all gone, or
  -- they would begin as a list again.
  local first, second = entered, gone
  if #entered > 2 and #gone > 2 then
    local held_now = redis.pcall('ZCARD', PERMITS)
    local few = type(held_now) == 'number' and held_now + #entered / 2 - 1 <= LIST
    if few then first, second = gone, entered end
    -- What may be refused is tried before anything changes; no permit has this id.
    if few then redis.call('ZADD', PERMITS, 'XX', '0', KEYS[1]) else redis.call('ZREM', PERMITS, KEYS[1]) end
  end
  if life > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
  if total ~= tonumber(text or 0) or exists ~= (text ~= false) then write_counter() end
  local function write_members(command)
    if #command <= 2 * CHUNK then
      if #command > 2 then changes[#changes + 1] = command end
      return
    end
    for first = 3, #command, CHUNK do
      write(command[1], command[2], unpack(command, first, min(#command, first + CHUNK - 1)))
    end
  end
  write_members(first)
  write_members(second)
  if life > 0 then write('PEXPIRE', PERMITS, life) end

  -- Others look when the first one ends that they know of: that is no later than the one that was given back last would have.
  local look, line, known_end = -1, turn and turn.line, freed_end or 0
  local others = line and line.count > (line.stands and 1 or 0)
  if others and (took or freed_end) then
    local noted = line:instant('!', math.huge)
    known_end = freed_end or noted
    local kept = took and 0 or known_end
    if kept ~= noted then line:set_instant('!', kept) end
  end
  local unknown = others and took and known_end == 0
  nearest = nearest or ENDLESS
  local sooner = shortened or took and nearest < known_end
  if got < wanted or unknown then
    local first = redis.call('ZRANGEBYSCORE', PERMITS, '(' .. now_text, format('(%.0f', ENDLESS), 'WITHSCORES', 'LIMIT', 0, 1)[2]
    first = tonumber(first) or ENDLESS
    sooner = sooner or unknown and nearest < first
    nearest = min(nearest, first)
  end
  if asked and over > 0 then
    look = 0
  elseif got < wanted and nearest < ENDLESS then
    look = max(1, nearest - now)
  end
  if asked and added > 0 and listeners < 0 then listeners = count_listeners(CHANNEL) end
  local words = format('%.0f %.0f %d', look, total, listeners) .. results

  local known, old = on_record('done ' .. words, changes[1])
  if known then return known end
  if turn then words = words .. close_turn(total, added > 0 and total > 0) end
  -- Others wait for a later end: the first two of them are told, as one may be gone; all are who do not stand in line.
  if sooner then
    local told, near = 0, turn and first_three() or {}
    for i = 1, 3 do
      if told < 2 and tell(near[i], 'turn') then told = told + 1 end
    end
    if told == 0 or turn.strangers > 0 then redis.pcall(ARGV[1], CHANNEL, '0') end
  end
  local heard, refusal
  if added > 0 and total > 0 and not (turn and turn.told) then
    heard, refusal = announce(CHANNEL, total, added, turn and turn.sign or '')
  end
  return carry_out(words, changes, old, refusal)
end
