-- Purpose: the line of our clients that wait for a semaphore with ids, by the arrival of each one's first caller: who comes
--   before whom, who is told that it is his turn, and who is taken out because he does not come
-- Counterpart: extension: the part between a store and batch.lua; it knows nothing of how holders are kept
-- KEYS[1..] keys: counted from the end: notes: hash, client -> "<how many wait> <limit> <patience> <1: it listens>
--   <told when, or 0> <1: it knows that it is first>"; line: zset, client -> arrival; both in microseconds
-- Returns: nothing by itself; it defines `open_line`
-- Publishes: "turn" on "<line>:<client>" to each client whose turn it is, once until it looks; "first" to one that has become
--   the first in line, or "turn" where that is a reason to look
-- Repeat-safe: yes, a repetition finds everybody told
-- Invariant: only the first few are read; who is told and does not look within its patience is taken out, until it looks;
--   what is stored decides who comes first, and nothing else

-- `id`: the client that runs this, `limit`: its limit; `room(limit)`: how many permits are left under a limit.
local function open_line(id, limit, now, publish, room)
  local LINE, NOTES = KEYS[#KEYS - 1], KEYS[#KEYS]
  local CHUNK, MOST, LEAST_PATIENCE, MOST_PATIENCE = 4, 64, 1000, 250000
  local entries, loaded, complete, place = {}, 0, false, 1
  local gone = {}
  -- `given`: how many permits are due to those who have been passed by the walk; `further`: how many more those want;
  -- `told`: somebody was told now; `missed`: so was one who is gone; `pause`: how long until somebody's patience ends.
  local line = { given = 0, further = 0, told = false, missed = false, pause = -1 }

  local function read(member, arrival, note)
    local n = { string.match(note or '', '^(%d+) (%d+) (%d+) ([01]) (%d+) ([01])$') }
    for i = 1, 6 do n[i] = tonumber(n[i]) end
    local entry = {
      id = member, arrival = arrival, count = n[1], limit = n[2], patience = n[3], listens = n[4], told = n[5], first = n[6],
    }
    if not n[6] then return nil, entry end
    entry.patience = math.max(LEAST_PATIENCE, math.min(MOST_PATIENCE, entry.patience))
    local silent = entry.told > now or entry.told > 0 and now - entry.told >= entry.patience
    return not silent, entry
  end

  -- The next of the others who wait. A key of another type is left alone: nobody is known to stand there.
  local function entry(i)
    while not entries[i] and not complete do
      local chunk = redis.pcall('ZRANGE', LINE, loaded, loaded + CHUNK - 1, 'WITHSCORES')
      local ids = {}
      for j = 1, #chunk, 2 do ids[#ids + 1] = chunk[j] end
      local notes = #ids > 0 and redis.pcall('HMGET', NOTES, unpack(ids)) or chunk
      line.broken = notes.err and string.find(notes.err, '^WRONGTYPE') and true
      if notes.err and not line.broken then error(notes) end
      if line.broken then ids = {} end
      loaded, complete = loaded + #ids, #ids < CHUNK
      if not complete and loaded >= MOST then complete, line.more = true, true end
      for j = 1, #ids do
        if ids[j] ~= id then
          local there, one = read(ids[j], tonumber(chunk[2 * j]), notes[j])
          if there then entries[#entries + 1] = one else gone[#gone + 1] = ids[j] end
        end
      end
    end
    return entries[i]
  end

  -- Takes one out who is not there any more.
  local function leave(i)
    gone[#gone + 1] = entries[i].id
    table.remove(entries, i)
  end

  local function say(one, word)
    one.changed = true
    return redis.call(publish, LINE .. ':' .. one.id, word)
  end

  -- Whether the line is empty but for this client.
  function line.is_empty()
    return not entry(1)
  end

  -- How many of `count` callers who came at `came` get a permit, behind all who came before them.
  function line.serve(came, count)
    local mine = room(limit)
    while mine > line.given and entry(place) and entry(place).arrival < came do
      local one = entry(place)
      local left = room(one.limit) - line.given
      if left > 0 then
        line.given, line.further = line.given + 1, line.further + math.min(one.count, left) - 1
      end
      place = place + 1
    end
    local some = math.min(count, math.max(0, mine - line.given))
    line.given = line.given + some
    return some
  end

  -- How many permits are left when all who wait have got theirs, `more` of this client's among them.
  function line.left(more)
    local left = room(limit) - line.given - line.further - more
    while left > 0 and entry(place) do
      left = left - math.min(entry(place).count, math.max(0, room(entry(place).limit)))
      place = place + 1
    end
    return line.more and 0 or math.max(0, left)
  end

  -- Tells those whose turn it is; without `changed` only those behind one who has been taken out.
  function line.tell(changed)
    local i, given, highest = 1, 0, limit
    while entry(i) and room(math.max(highest, entry(i).limit)) > given do
      local one = entry(i)
      highest = math.max(highest, one.limit)
      local its_turn = room(one.limit) > given
      if its_turn and one.told == 0 and (changed or #gone > 0) then
        one.told, line.told = now, true
        -- It has said that it listens, and its connection is gone.
        if say(one, 'turn') == 0 and one.listens == 1 then
          leave(i)
          line.missed = true
        end
      end
      if entries[i] == one then
        i = i + 1
        if its_turn then given = given + 1 end
        if its_turn and one.told > 0 then
          local rest = math.max(1, one.told + one.patience - now)
          line.pause = line.pause < 0 and rest or math.min(line.pause, rest)
        end
      end
    end
  end

  -- Writes it all down; `count` of this client's callers wait on, the first of whom came at `arrival`. How many stand before
  -- it, and how many in all.
  function line.close(count, arrival, patience, listens, life, calls)
    local first = entry(1)
    local waits = count > 0 and not line.broken
    local own_first = waits and not (first and first.arrival < arrival)
    if first and first.first == 0 and not own_first then
      first.first = 1
      say(first, first.told == 0 and calls and 'turn' or 'first')
    end
    local notes = {}
    local function note(one)
      local text = '%.0f %.0f %.0f %d %.0f %d'
      notes[#notes + 1] = one.id
      notes[#notes + 1] = string.format(text, one.count, one.limit, one.patience, one.listens, one.told, one.first)
    end
    for i = 1, #entries do
      if entries[i].changed then note(entries[i]) end
    end
    if waits then
      note({
        id = id, count = count, limit = limit, patience = patience, listens = listens, told = 0,
        first = own_first and 1 or 0,
      })
    elseif loaded > 0 then
      gone[#gone + 1] = id
    end
    if #gone > 0 then
      redis.call('ZREM', LINE, unpack(gone))
      redis.call('HDEL', NOTES, unpack(gone))
    end
    if #notes > 0 then
      local noted = redis.pcall('HSET', NOTES, unpack(notes))
      if type(noted) == 'table' then
        if not string.find(noted.err, '^WRONGTYPE') then error(noted) end
        waits = false
      end
    end
    if not waits then return 0, 0 end
    redis.call('ZADD', LINE, string.format('%.0f', arrival), id)
    redis.call('PEXPIRE', LINE, life)
    redis.call('PEXPIRE', NOTES, life)
    if complete and not first then return 0, 1 end
    return redis.call('ZRANK', LINE, id), redis.call('ZCARD', LINE)
  end
  return line
end
