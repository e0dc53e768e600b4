-- Purpose: keeps a line of clients that take turns, ordered by arrival; src/engine/turns tells the rule
-- Counterpart: extension: a part of scripts that serve clients in turn, behind engine/places.lua; it knows nothing of what
--   they wait for
-- Returns: nothing by itself; where there is a `LINE`, it defines `open_line(key, notes, publish, id, now, asks, rules)`, times in microseconds
--   of the server's clock. `key`: a zset, client id -> arrival of its first caller; `notes`: a hash; `publish`: the command;
--   `id`: the client that runs this; `asks`: its callers ask now, else it stands where it stood. `rules`,
--   where they are other than the semaphore's: `slack` and `part` of a wait that do not count between two clients;
--   `mine`: the patience with this client, which then is not learned, and nobody is far; `life` of both keys; `fits(want, left)`: what a client takes
--   of what is left, or nothing, then nobody stops the line; `settling`: for how long after it has asked a client need not
--   listen yet; `say`: how it is published, if not without an error. The line has
--   `before(since)`: who came by then comes before one who came at `since`; `limit(all)`: who came by then comes before the next in
--   line; everybody does before one that does not stop the line, if `all` may. `keep(left)`: how many of the `left` permits the next in
--   line keeps, and is told of. `stops(since, ticket)`: whether the first of those who ask stops the line, as what is
--   free does not do for it. `wait(rest)`: somebody is waited for. `note(field, value)`: to be written, too. `count()`:
--   how many stand in line; `left()`: how many have been taken out; `stands`: this client does already, nothing where that is not known. `close(left, own)`: tells the others whom they fit, writes it all down, and returns how much
--   is left then, nothing if it may not be written. `own`: `since`, `want` and `ticket` (the same number for the same
--   caller) of the first who waits on, if one `waits`; it `stops` the line; there are `others` of ours; `passes`: those
--   are served who came then, or 0; `reach`: how much is free now, or may be soon; nothing where nobody asks for `first`.
--   Then `told`: this client looks whether others come; `pause`: when, or 0; `first`: who came later needs a look here
-- Publishes: "turn" to "<key>:<client id>" of each whose turn it is; "new" to "<key>" by the first in line: come, all
-- Repeat-safe: yes, a repetition puts the client where it is already
-- Invariant: what is stored decides who comes first, and nothing else; what can't be read counts as missing; both keys
--   vanish when they have not been used for a while

local open_line = LINE and function(key, notes, publish, id, now, asks, rules)
  local SLACK, SLACK_PART, say = rules.slack or 5000, rules.part or 0.1, rules.say or redis.pcall
  local FAR, REST = rules.mine and math.huge or 20000, 3
  local PASSING, PASS, ALIVE, REFUSED = 5000000, 20000, 20000, 100000
  local max, min = math.max, math.min
  local places = open_places(key, notes, id, now, rules)
  local me, place, spared, LONGEST = places.me, 1, nil, places.longest
  me.patience, places.without_me = max(me.patience, min(LONGEST, rules.mine or 0)), asks
  local line = { told = false, pause = 0, stands = places.stands, note = places.note, count = places.count, left = places.left }
  line.wait = function(rest) line.pause = max(1, line.pause > 0 and min(line.pause, rest) or rest) end

  -- What is known of those who are near, or `dead`, is of no use any more.
  local function leave(e, dead)
    places.leave(e, dead or e.told == 0 and e.patience <= FAR)
    return 0
  end

  -- Somebody who is far away makes others wait for so long; then for three times as long it is their turn.
  local function charge(time, rest)
    places.far_again = now + time + REST * rest
    places.note(FAR_FIELD, string.format('%.0f', places.far_again))
  end
  -- Who comes late shows how far away it is; much later, that something held it up.
  if asks and me.told > 0 then
    local delay = now - me.told
    if me.patience > FAR then charge(0, delay > FAR and min(delay, me.patience) or 0) end
    if delay <= LONGEST then me.patience = max(PATIENCE, 0.6 * me.patience, min(LONGEST, 1.5 * delay)) end
    me.told = 0
  end

  local function tell(e, again)
    -- Where it can't be noted who was told, all would tell each other over and over: who looks now does so again.
    if not places.can_write() then
      line.told = true
      line.wait(REFUSED)
      return e.want
    end
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
    -- Several take no turns in it, or the line would always stand still.
    local begins = max(e.stops == 0 and now or e.stops, places.stop_again)
    if begins ~= e.stops then e.stops, e.changed = begins, true end
    if now < e.stops then return false end
    local waited = min(MOST_PASSED, e.stops - e.since)
    local long = waited >= PASSING
    local rest = e.stops + (long and PASSING + waited / 4 or max(PATIENCE, waited / 16)) - now
    if rest > 0 then line.wait(rest) return true end
    e.stops, e.changed = now + (long and min(MOST_PASSED, now - e.since) or max(PASS, (now - e.since) / 4)), true
    places.stop_again = e.stops
    places.note(STOP_FIELD, string.format('%.0f', e.stops))
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
  line.before = function(since) return (since + SLACK + now * SLACK_PART) / (1 + SLACK_PART) end
  line.limit = function(all)
    local e = places.at(place)
    return e and not (all and e.stops == 0) and line.before(e.since) or math.huge
  end
  line.keep = function(left)
    local e = places.at(place)
    place = place + 1
    if e.told > 0 and now - e.told >= e.patience then return leave(e) end
    local fits = part_of(e, left)
    if not fits and (rules.fits or not stops(e)) then return 0 end
    if e.told > 0 then
      line.wait(e.told + e.patience - now)
    elseif fits and e.patience > FAR and now < places.far_again and places.far_again <= now + (1 + REST) * LONGEST then
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
    places.without_me = asks or not own.waits
    local function goes_on()
      local e = (left > 0 or rules.fits and left > -math.huge) and places.at(place)
      return e and not (own.stops and e.since > me.since) and (left > 0 or part_of(e, left))
    end
    while goes_on() do left = left - line.keep(left) end
    -- Nobody else can use it.
    if left > 0 and spared then left = left - tell(spared) end
    if own.reach then places.at(1) end
    for _, e in ipairs(own.reach and places or {}) do
      if not line.first and not e.gone
        and (e.want <= own.reach or (e.since < own.passes or e.stops > 0) and stops(e)) then line.first = e.since end
    end
    if not own.waits then
      me.told = 0
      if places.stands ~= false then leave(me) end
    end
    local comes = asks and own.waits
    local kept = places.write(comes)
    -- Who stood in another line, waited when there was none, or came before this client could be counted, is to come.
    if comes and own.others and places.count() == 1 then redis.pcall(publish, key, 'new') end
    return kept and left or nil
  end
  return line
end
