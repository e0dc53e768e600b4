-- Purpose: reads and writes the places in a line, and what is noted of the clients that stand there; src/engine/turns has the form
-- Counterpart: extension: a part of scripts that serve clients in turn, behind engine/change.lua and before engine/line.lua
-- Returns: nothing by itself; where there is a `LINE`, it defines `open_places(key, notes, id, now, rules)`, all as `open_line` has them. The places have
--   `me`: the place of the client that runs this; `longest`: no patience is longer, PATIENCE being the shortest; nobody is passed for longer than
--   MOST_PASSED; `stands`: it is in
--   the line already, nothing where that is not known; `far_again`, `stop_again`: two instants in the notes; `without_me`: the
--   walk passes it; `at(i)`: the i-th place that is read, or nothing; `leave(place, forget)`: takes it out of the line;
--   `note(field, value)`: to be written, too; `can_write()`: the server takes changes; `count()`: how many stand in line; `left()`: how many were taken out;
--   `write(comes)`: writes down what is to be written, and puts `me` into the line if it `comes`; returns whether all that
--   stays. A place has `id`; `since`, `want`, `seen`, `told`, `patience`, `stops` and `ticket`: what is stored; `changed`: it is to be written; `gone`: taken out
-- Publishes: nothing
-- Repeat-safe: yes, a repetition puts the client where it is already
-- Invariant: what can't be read counts as missing; both keys vanish when they have not been used for a while

local FAR_FIELD, STOP_FIELD, PATIENCE, MOST_PASSED = '+', '=', 5000, 60000000

local open_places = LINE and function(key, notes, id, now, rules)
  -- So many places are read, and so many clients are looked at where some are taken out; notes; and what is believed.
  local MOST, MOST_LOOKED_AT, MOST_NOTES, OLDEST = 64, 1000, 10000, 3600000000
  local LONGEST, LIFE = rules.mine and 250000 or 150000, rules.life or '60000'
  local max, min, format = math.max, math.min, string.format
  local loaded, broken, fields, left = 0, false, {}, 0

  local function number(...)
    local answer = change(...)
    return type(answer) == 'number' and answer
  end
  -- When somebody stops the line: no later than that, or it is a wrong time.
  local function stop_at(time) return time <= now + MOST_PASSED and time or 0 end
  local function read(other, since, note)
    local n = { string.match(type(note) == 'string' and note or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$') }
    for i = 1, 6 do n[i] = tonumber(n[i]) or 0 end
    return {
      id = other, since = max(now - OLDEST, min(now, since)), want = max(1, n[1]), seen = min(now, n[2]),
      told = n[3] <= now and n[3] or 0, patience = max(PATIENCE, min(LONGEST, n[4])), stops = stop_at(n[5]), ticket = n[6],
    }
  end
  local known = rules.mine and {} or redis.pcall('HMGET', notes, id, FAR_FIELD, STOP_FIELD)
  local places = {
    me = read(id, now, known[1]), longest = LONGEST, stands = known[1] and true,
    far_again = tonumber(known[2] or nil) or 0, stop_again = stop_at(tonumber(known[3] or nil) or 0),
  }

  -- With what is no notes nobody could be passed who was told and does not come: that would be so for good.
  local function forget_others()
    local noted = redis.pcall('HLEN', notes)
    if type(noted) == 'table' and string.find(noted.err, 'WRONGTYPE') then change('DEL', notes) end
  end

  places.note = function(field, value) fields[#fields + 1], fields[#fields + 2] = field, value end
  local can_write
  places.can_write = function()
    if can_write == nil then can_write = number('PEXPIRE', key, LIFE) ~= false end
    return can_write
  end
  places.count = function() return number('ZCARD', key) or 0 end
  places.left = function() return left end
  places.at = function(i)
    while not places[i] and loaded < MOST and #places < MOST_LOOKED_AT do
      -- Mostly it is the first: Redis takes long to write a number down.
      local rank = loaded == 0 and '0' or loaded
      local found = redis.pcall('ZRANGE', key, rank, rank, 'WITHSCORES')
      local other = found[1]
      broken, loaded = broken or found.err, other and loaded + 1 or MOST
      if other and not (places.without_me and other == id) then
        places[#places + 1] = read(other, tonumber(found[2]) or now, redis.pcall('HGET', notes, other))
      end
    end
    return places[i]
  end

  -- With `forget` nothing is noted of it any more.
  places.leave = function(place, forget)
    place.gone, place.changed = true, not forget
    -- Those behind are where it was, unless it may not be taken out.
    local was_there = number('ZREM', key, place.id) or 0
    loaded, left = loaded - was_there, left + was_there
    if forget then change('HDEL', notes, place.id) end
  end

  places.write = function(comes)
    local me, added = places.me, comes and number('ZADD', key, format('%d', places.me.since), id)
    me.changed = me.changed or comes
    places[#places + 1] = me
    for _, p in ipairs(places) do
      if p.changed then
        local note = { p.want, p.seen, p.told, p.patience, p.stops, p.ticket }
        places.note(p.id, format('%d %d %d %d %d %d', unpack(note)))
      end
    end
    if #fields == 0 then return not broken end
    local new = (added or not comes) and not broken and number('HSET', notes, unpack(fields))
    if not new then
      forget_others()
      if added == 1 then redis.pcall('ZREM', key, id) end
      return false
    end
    -- What was there before expires already, and is kept by those who come.
    local kept = not comes and new == 0 or number('PEXPIRE', notes, LIFE) and number('PEXPIRE', key, LIFE)
    -- Nothing stays that would not expire, and nothing that would be too much.
    if not kept or new > 0 and (number('HLEN', notes) or 0) > MOST_NOTES then redis.pcall('DEL', notes, key) end
    return kept
  end
  return places
end
