-- Purpose: keeps a line of clients that take turns, ordered by arrival; src/engine/turns tells the rule
-- Counterpart: extension: a part of scripts that serve clients in turn; it knows nothing of what they wait for
-- Returns: nothing by itself; it defines `open_line(key, notes, publish, id, now, asks, rules)`, times in microseconds
--   of the server's clock. `key`: a zset, client id -> arrival of its first caller; `notes`: a hash; `publish`: the command;
--   `id`: the client that runs this; `asks`: its callers ask now, else it stands where it stood. `rules`,
--   where they are other than the semaphore's: `slack` and `part` of a wait that do not count between two clients;
--   `mine`: the patience with this client, which then is not learned, and nobody is far; `life` of both keys; `fits(want, left)`: what a client takes
--   of what is left, or nothing, then nobody stops the line; `settling`: for how long after it has asked a client need not
--   listen yet; `say`: how it is published, if not without an error. The line has
--   `limit()`: who came by then comes before the next in line. `keep(left)`: how many of the `left` permits the next in
--   line keeps, and is told of. `stops(since, ticket)`: whether the first of those who ask stops the line, as what is
--   free does not do for it. `wait(rest)`: somebody is waited for. `note(field, value)`: to be written, too. `count()`:
--   how many stand in line. `close(left, own)`: tells the others whom they fit, writes it all down, and returns how much
--   is left then, nothing if it may not be written. `own`: `since`, `want` and `ticket` (the same number for the same
--   caller) of the first who waits on, if one `waits`; it `stops` the line; there are `others` of ours; `passes`: those
--   are served who came then, or 0; `reach`: how much is free now, or may be soon; nothing where nobody asks for `first`.
--   Then `told`: this client looks whether others come; `pause`: when, or 0; `first`: who came later needs a look here
-- Publishes: "turn" to "<key>:<client id>" of each whose turn it is; "new" to "<key>" by the first in line: come, all
-- Repeat-safe: yes, a repetition puts the client where it is already
-- Invariant: what is stored decides who comes first, and nothing else; what can't be read counts as missing; both keys
--   vanish when they have not been used for a while

local function open_line(key, notes, publish, id, now, asks, rules)
  local SLACK, SLACK_PART, LIFE, say = rules.slack or 5000, rules.part or 0.1, rules.life or '60000', rules.say or redis.pcall
  local PATIENCE, FAR, LONGEST, REST, FAR_FIELD, STOP_FIELD = 5000, 20000, 150000, 3, '+', '='
  if rules.mine then FAR, LONGEST = math.huge, 250000 end
  -- So many places are read, and so many clients are looked at where some are taken out; notes; and what is believed.
  local MOST, MOST_LOOKED_AT, MOST_NOTES, OLDEST = 64, 1000, 10000, 3600000000
  local PASSING, PASS, ALIVE = 5000000, 20000, 20000
  local max, min, format = math.max, math.min, string.format
  local line, entries, place, loaded, broken = { told = false, pause = 0 }, {}, 1, 0, false
  local without_me, fields, spared = asks, {}, nil

  local function number(...)
    local answer = redis.pcall(...)
    return type(answer) == 'number' and answer
  end
  line.note = function(field, value) fields[#fields + 1], fields[#fields + 2] = field, value end
  line.count = function() return number('ZCARD', key) or 0 end
  line.wait = function(rest) line.pause = max(1, line.pause > 0 and min(line.pause, rest) or rest) end

  local function read(other, since, note)
    local n = { string.match(type(note) == 'string' and note or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$') }
    for i = 1, 6 do n[i] = tonumber(n[i]) or 0 end
    return {
      id = other, since = max(now - OLDEST, min(now, since)), want = max(1, n[1]), seen = min(now, n[2]),
      told = n[3] <= now and n[3] or 0, patience = max(PATIENCE, min(LONGEST, n[4])), stops = n[5], ticket = n[6],
    }
  end
  local known = rules.mine and {} or redis.pcall('HMGET', notes, id, FAR_FIELD, STOP_FIELD)
  local me, far_again, stop_again = read(id, now, known[1]), tonumber(known[2] or nil) or 0, tonumber(known[3] or nil) or 0
  if stop_again > now + OLDEST then stop_again = 0 end
  me.patience = max(me.patience, min(LONGEST, rules.mine or 0))

  local function entry(i)
    while not entries[i] and loaded < MOST and #entries < MOST_LOOKED_AT do
      local found = redis.pcall('ZRANGE', key, loaded, loaded, 'WITHSCORES')
      local other = found[1]
      broken, loaded = broken or found.err, other and loaded + 1 or MOST
      if other and not (without_me and other == id) then
        entries[#entries + 1] = read(other, tonumber(found[2]) or now, redis.pcall('HGET', notes, other))
      end
    end
    return entries[i]
  end

  -- What is known of those who are near, or `dead`, is of no use any more.
  local function leave(e, dead)
    local forget = dead or e.told == 0 and e.patience <= FAR
    e.gone, e.changed = true, not forget
    -- Those behind are where it was, unless it may not be taken out.
    loaded = loaded - (number('ZREM', key, e.id) or 0)
    if forget then redis.pcall('HDEL', notes, e.id) end
    return 0
  end

  -- Somebody who is far away makes others wait for so long; then for three times as long it is their turn.
  local function charge(time, rest)
    far_again = now + time + REST * rest
    line.note(FAR_FIELD, format('%.0f', far_again))
  end
  -- Who comes late shows how far away it is; much later, that something held it up.
  if asks and me.told > 0 then
    local delay = now - me.told
    if me.patience > FAR then charge(0, delay > FAR and min(delay, me.patience) or 0) end
    if delay <= LONGEST then me.patience = max(PATIENCE, 0.6 * me.patience, min(LONGEST, 1.5 * delay)) end
    me.told = 0
  end

  local function tell(e, again)
    local heard = say(publish, key .. ':' .. e.id, 'turn')
    local settles = now - e.seen < (rules.settling or 0)
    if type(heard) ~= 'number' or heard < 1 and not settles then return leave(e, true) end
    e.told, e.changed, line.told = now, true, line.told or not again
    if e.patience > FAR then charge(e.patience, e.patience) end
    line.wait(e.patience)
    return e.want
  end

  -- Whether `e`, which can't use what is free, stops the line now; between times it is passed.
  local function stops(e)
    if e.stops == 0 then e.stops, e.changed = now, true end
    -- Several take no turns in it, or the line would always stand still.
    if e.stops < stop_again then e.stops, e.changed = stop_again, true end
    if now < e.stops then return false end
    local waited = e.stops - e.since
    local long = waited >= PASSING
    local rest = e.stops + (long and PASSING + waited / 4 or max(PATIENCE, waited / 16)) - now
    if rest > 0 then line.wait(rest) return true end
    e.stops, e.changed = now + (long and now - e.since or max(PASS, (now - e.since) / 4)), true
    stop_again = e.stops
    line.note(STOP_FIELD, format('%.0f', stop_again))
    return false
  end
  line.stops = function(since, ticket)
    if me.ticket ~= ticket then me.ticket, me.stops = ticket, 0 end
    me.since = since
    if stops(me) then line.told = true return true end
  end

  -- How much of what is left `e` takes; nothing if that does not do for it.
  local function part_of(e, left)
    if rules.fits then return rules.fits(e.want, left) end
    return e.want <= left and e.want
  end
  line.limit = function()
    local e = entry(place)
    return e and (e.since + SLACK + now * SLACK_PART) / (1 + SLACK_PART) or math.huge
  end
  line.keep = function(left)
    local e = entry(place)
    place = place + 1
    if e.told > 0 and now - e.told >= e.patience then return leave(e) end
    local fits = part_of(e, left)
    if not fits and (rules.fits or not stops(e)) then return 0 end
    if e.told > 0 then
      line.wait(e.told + e.patience - now)
    elseif fits and e.patience > FAR and now < far_again and far_again <= now + (1 + REST) * LONGEST then
      spared = spared or e
      return 0
    -- Who stops the line must have come since it began to, and must keep coming, as those see who wait.
    elseif not fits and e.seen >= e.stops and now - e.seen < ALIVE then
      line.wait(e.seen + ALIVE - now)
    elseif tell(e, not fits and e.seen >= e.stops) == 0 then
      return 0
    end
    return fits or left
  end

  line.close = function(left, own)
    me.since, me.want, me.seen = own.since, own.want, now
    if own.ticket ~= me.ticket then me.stops, me.ticket = 0, own.ticket end
    -- Who goes is not waited for.
    without_me = asks or not own.waits
    while (left > 0 or rules.fits and left > -math.huge and entry(place) and part_of(entry(place), left)) and entry(place)
      and not (own.stops and entry(place).since > me.since) do
      left = left - line.keep(left)
    end
    -- Nobody else can use it.
    if left > 0 and spared then left = left - tell(spared) end
    if own.reach then entry(1) end
    local added = 0
    if not own.waits then
      me.told = 0
      leave(me)
    elseif asks then
      me.changed, added = true, number('ZADD', key, format('%.0f', me.since), id)
    end
    entries[#entries + 1] = me
    for _, e in ipairs(entries) do
      if own.reach and not line.first and not e.gone and e ~= me
        and (e.want <= own.reach or (e.since < own.passes or e.stops > 0) and stops(e)) then line.first = e.since end
      if e.changed then
        local note = { e.want, e.seen, e.told, e.patience, e.stops, e.ticket }
        line.note(e.id, format('%.0f %.0f %.0f %.0f %.0f %.0f', unpack(note)))
      end
    end
    local kept = #fields == 0 and not broken
    local new = #fields > 0 and added and not broken and number('HSET', notes, unpack(fields))
    if new then
      -- What was there before expires already, and is kept by those who ask.
      kept = not asks and new == 0 or number('PEXPIRE', notes, LIFE) and number('PEXPIRE', key, LIFE)
      -- Nothing stays that would not expire, and nothing that would be too much.
      if not kept or new > 0 and (number('HLEN', notes) or 0) > MOST_NOTES then redis.pcall('DEL', notes, key) end
    elseif not kept and added == 1 then
      redis.pcall('ZREM', key, id)
    end
    -- Who stood in another line, waited when there was none, or came before this client could be counted, is to come.
    if asks and own.waits and own.others and line.count() == 1 then redis.pcall(publish, key, 'new') end
    return kept and left or nil
  end
  return line
end
