-- Purpose: keeps a line of clients that take turns: first come, first served, to within a few milliseconds; only
--   the first few are read, until what they want exceeds what there is. src/engine/turns tells the rule
-- Counterpart: extension: a part of scripts that serve clients in turn; it knows nothing of what they wait for
-- Returns: nothing by itself; it defines `open_line(key, notes, publish, id, now, asks, rules)`, all times in microseconds of
--   the server's clock: `key` is a zset, client id -> arrival of its first caller, `notes` a hash beside it, `publish`
--   the command, `id` the client that runs this, `asks` whether its callers ask now; else it stands where it stood.
--   `rules`, where they are other than the semaphore's: `slack` and `part` of a wait that do not count between two clients;
--   `patience` with who was told; from when on one is `far`; `life` of both keys; `fits(want, left)`: what a client takes
--   of what is left, or nothing, then nobody stops the line; `settling`: for how long after it has asked a
--   client need not listen yet; `say`: how it is published, if not without an error.
--   A table: `limit()`: who came by then comes before the next in line. `keep(left)`: how many of the `left` permits
--   the next in line keeps; it is told that they are there. `stops(since, ticket)`: whether the first of those who ask
--   stops the line, as what is free does not do for it. `close(left, own)`: tells the others whom they fit, and
--   writes it all down; `own`: `waits` (whether some of its callers wait on), `stops` (whether they stop the line),
--   `others` (whether other clients of ours listen), `head` (when the first of those who ask came), `since`, `want` and `ticket` of the first who waits on (a number that is always the same for the same
--   caller), `took` (whether some have been served), `total` and `amount` (how much is free, and what it may give back next). It returns
--   nothing if that may not be written, else how much is left. `count()`: how many clients there are in line. `note(field, value)`: one more to be
--   written down. `wait(rest)`: somebody is waited for, for so long.
--   Then `told`: whether somebody was told just now; `pause`: how long until somebody's time is up, 0 for never;
--   `first`: when those came who must come before callers that are served without a look at the line, or nothing
-- Publishes: "turn" to "<key>:<client id>", to each client whose turn it is; "new" to a channel that is called like the
--   key by the first in line: all who wait are to come
-- Repeat-safe: yes, a repetition puts the client where it is already
-- Invariant: what is stored decides who comes first, and nothing else; what can't be read counts as missing; both keys
--   vanish when they have not been used for a while

local function open_line(key, notes, publish, id, now, asks, rules)
  local SLACK, SLACK_PART = rules.slack or 5000, rules.part or 0.1
  local PATIENCE, FAR, LONGEST, FAR_PART, FAR_FIELD = rules.patience or 5000, rules.far or 20000, 150000, 3, '+'
  local PASSING, PASS, ALIVE = 5000000, 20000, 1000000
  local CHUNK, MOST, MOST_NOTES, OLDEST, LIFE = 4, 64, 10000, 3600000000, rules.life or '60000'
  local max, min, format = math.max, math.min, string.format
  local entries, loaded, complete, place = {}, 0, false, 1
  -- Whether this client stands among those who are looked at.
  local with_me = not asks
  local gone, forgotten, fields = {}, {}, {}
  local line = { told = false, pause = 0 }

  local function read(other, since, text)
    local n = { string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$') }
    for i = 1, 6 do n[i] = tonumber(n[i]) or 0 end
    return {
      id = other, since = max(now - OLDEST, min(now, since)), want = max(1, n[1]), seen = min(now, n[2]),
      told = n[3] <= now and n[3] or 0, patience = max(PATIENCE, min(LONGEST, n[4])), stops = n[5], ticket = n[6],
    }
  end

  local known = redis.pcall('HMGET', notes, id, FAR_FIELD)
  local me = read(id, now, known[1])
  local far_again = tonumber(known[2] or nil) or 0
  if far_again > now + FAR_PART * LONGEST then far_again = 0 end
  -- Somebody who is far away has made others wait for so long; then for three times as long it is their turn.
  local function charge(time)
    far_again, line.far = now + FAR_PART * time, true
  end

  -- Who comes late shows how far away it is; much later, that something held it up.
  if asks and me.told > 0 then
    local delay = now - me.told
    if me.patience > FAR then charge(delay > FAR and min(delay, me.patience) or 0) end
    if delay <= LONGEST then me.patience = max(PATIENCE, 0.6 * me.patience, min(LONGEST, 1.5 * delay)) end
    me.told = 0
  end

  local function entry(i)
    while not entries[i] and not complete do
      local chunk = redis.pcall('ZRANGE', key, loaded, loaded + CHUNK - 1, 'WITHSCORES')
      local ids = {}
      for j = 1, #chunk, 2 do ids[#ids + 1] = chunk[j] end
      local texts = #ids > 0 and redis.pcall('HMGET', notes, unpack(ids)) or {}
      loaded = loaded + #ids
      complete = #ids < CHUNK or loaded >= MOST
      for j = 1, #ids do
        if ids[j] ~= id or with_me then
          entries[#entries + 1] = read(ids[j], tonumber(chunk[2 * j]) or now, texts[j])
        end
      end
    end
    return entries[i]
  end

  local function leave(e, list)
    e.gone, gone[#gone + 1] = true, e.id
    if list then list[#list + 1] = e.id end
    return false
  end

  local function tell(e)
    local heard = (rules.say or redis.pcall)(publish, key .. ':' .. e.id, 'turn')
    local settles = now - e.seen < (rules.settling or 0)
    if type(heard) ~= 'number' or heard < 1 and not settles then return leave(e, forgotten) end
    e.told, e.changed, line.told = now, true, true
    if e.patience > FAR then charge(e.patience / FAR_PART) end
    return true
  end

  -- Somebody is waited for, for so long.
  line.wait = function(rest)
    line.pause = max(1, line.pause > 0 and min(line.pause, rest) or rest)
  end

  -- How much of what is left `e` takes; nothing if that does not do for it.
  local function part_of(e, left)
    if rules.fits then return rules.fits(e.want, left) end
    return e.want <= left and e.want
  end

  -- Whether `e`, which can't use what is free, stops the line now; between times it is passed.
  local function stops(e)
    if e.stops == 0 then e.stops, e.changed = now, true end
    if now < e.stops then return false end
    local waited = e.stops - e.since
    local long = waited >= PASSING
    local rest = e.stops + (long and PASSING + waited / 4 or max(PATIENCE, waited / 16)) - now
    if rest > 0 then
      line.told = true
      line.wait(rest)
      return true
    end
    e.stops, e.changed = now + (long and now - e.since or max(PASS, (now - e.since) / 4)), true
    return false
  end

  -- The same for the first of those who ask now.
  line.stops = function(since, ticket)
    if me.ticket ~= ticket then me.ticket, me.stops = ticket, 0 end
    me.since = since
    return stops(me)
  end

  line.limit = function()
    local e = entry(place)
    return e and (e.since + SLACK + now * SLACK_PART) / (1 + SLACK_PART) or math.huge
  end

  line.keep = function(left)
    local e = entries[place]
    place = place + 1
    if e.told > 0 and now - e.told >= e.patience then
      leave(e)
      if e.patience > FAR then charge(e.patience) end
      return 0
    end
    local fits = part_of(e, left)
    if not fits and (rules.fits or not stops(e)) then return 0 end
    if e.told == 0 and fits and e.patience > FAR and now < far_again then
      line.spared = line.spared or e
      return 0
    end
    -- Who stops the line must have come since it began to, and lately.
    if e.told == 0 and (fits or e.seen < e.stops or now - e.seen > ALIVE) and not tell(e) then return 0 end
    if e.told > 0 then line.wait(e.told + e.patience - now) end
    return fits or left
  end

  line.close = function(left, own)
    me.since, me.want, me.seen = own.since, own.want, now
    -- Who goes is not waited for.
    with_me = with_me and own.waits
    if own.ticket ~= me.ticket then me.stops, me.ticket = 0, own.ticket end
    while entry(place) and (left > 0 or rules.fits and part_of(entry(place), left))
      and not (own.stops and entry(place).since > me.since) do
      left = left - line.keep(left)
    end
    -- Nobody else can use it.
    local e = left > 0 and line.spared
    if e and tell(e) then
      line.wait(e.patience)
      left = left - e.want
    end
    local function put_note(e)
      line.note(e.id, format('%.0f %.0f %.0f %.0f %.0f %.0f', e.want, e.seen, e.told, e.patience, e.stops, e.ticket))
    end
    local added = 0
    entry(1)
    for _, e in ipairs(entries) do
      local passed = own.took and e.since < own.head or e.stops > 0
      if not line.first and not rules.fits and not e.gone and (e.want <= own.total + own.amount or passed and stops(e)) then
        line.first = e.since
      end
      if e.changed and not (e.gone and e.told == 0) then put_note(e) end
    end
    if line.far then line.note(FAR_FIELD, format('%.0f', far_again)) end
    if not own.waits then
      leave(me, me.patience <= FAR and forgotten or nil)
      if me.patience > FAR then put_note(me) end
    elseif asks then
      put_note(me)
      added = redis.pcall('ZADD', key, format('%.0f', me.since), id)
    end
    if #gone > 0 then redis.pcall('ZREM', key, unpack(gone)) end
    if #forgotten > 0 then redis.pcall('HDEL', notes, unpack(forgotten)) end
    local kept = #fields == 0 or type(added) == 'number' and type(redis.pcall('HSET', notes, unpack(fields))) == 'number'
    if not kept and added == 1 then redis.pcall('ZREM', key, id) end
    if kept and #fields > 0 then
      kept = type(redis.pcall('PEXPIRE', notes, LIFE)) == 'number' and redis.pcall('PEXPIRE', key, LIFE) and true
      local size = redis.pcall('HLEN', notes)
      -- Nothing stays that would not expire, and nothing that would be too much.
      if not kept or type(size) == 'number' and size > MOST_NOTES then redis.pcall('DEL', notes, key) end
    end
    -- Who stood in another line, waited when there was none, or came before this client could be counted, is to come.
    if asks and own.waits and own.others and line.count() == 1 then redis.pcall(publish, key, 'new') end
    return kept and left or nil
  end

  -- `field` of the notes is to be written with all others.
  line.note = function(field, value)
    fields[#fields + 1], fields[#fields + 2] = field, value
  end

  line.count = function()
    local count = redis.pcall('ZCARD', key)
    return type(count) == 'number' and count or 0
  end
  return line
end
