-- Purpose: keeps a line of clients that take turns, ordered by arrival; src/engine/turns tells the rule, and what is stored
-- Counterpart: extension: a part of scripts that serve clients in turn, behind engine/change.lua; it knows nothing of what
--   they wait for
-- Returns: nothing by itself; it defines PATIENCE, the shortest, `length_of(key)`, and, where there is a `LINE`, `Line`, what all lines
--   have, and `open_line(line)`. Where a part behind it adds `stops` to that, somebody may stop a line
-- Publishes: "turn" to "<key>:<client id>" of each whose turn it is, "own" to that of the client that runs this; "new" and its id to "<key>"
--   by the first in line, or by one that is served while nobody stands there: come, all
-- Repeat-safe: yes, a repetition puts the client where it is already
-- Invariant: what is stored decides who comes first, and nothing else; what can't be read counts as missing; both keys
--   vanish when they have not been used for a while

-- `open_line` makes a line of a table. Times are in microseconds of the server's clock.
--   key, notes    the zset and the hash
--   life          of both, in milliseconds
--   publish       the command
--   strict        what can't be published is an error
--   id            the client that runs this
--   asks          its callers ask now; else it stands where it stood
--   stood         it has been told that it stands there
--   since         when the first of those came who ask; now where there is none
--   now
--   count         how many stand there
--   slack, part   of a wait, that do not count between two clients
--   settling      for how long after it has asked a client need not listen yet, or nothing
--   mine          the patience with this client, which then is not learned, and nobody is far; or nothing
--   fits          what a client takes of what is left by (want, left), or nothing. Where there is none it
--                 takes all that it wants
-- What is set before each question:
--   most          how much is free at the most
--   reach         how much may be, soon, where somebody asks for `first`
-- First it is asked who comes before whom, then what is kept for whom; it is closed, and says what is to be seen to.
--   before(since)             who came by then comes before one who came at `since`
--   limit(all)                who came by then comes before the next in line; everybody does before one that does not stop the line,
--                             if `all` may
--   keep(left)                how many of the `left` permits the next in line keeps, and is told of
--   see(rest)                 it is to be seen then how it stands; wait(rest): somebody who has been told is waited for
--   note(field, value)        is to be written, too
--   stands                    this client does already
--   on_time                   it has been told, and comes in its patience: what is kept for it is its own
--   skip(count)               so many of the first are not looked at, if nobody has been yet; then nobody stops the line
--   close(left, own)          tells the others whom they fit, writes it all down, and returns how much is left then, nothing if it may
--                             not be written
-- `own`, of the callers of this client:
--   waits                     one does; `since`, `want` and `ticket` (the same number for the same caller) are those of the first
--   stops                     it stops the line
--   others                    there are others of ours; calls: they are called if nobody stands there
--   passes                    those are served who came then, or 0
-- What is known then:
--   told                      this client looks whether others come
--   unheard                   somebody could not be told
--   kept_before               some have been told in an earlier script, and may come still, or somebody stops the line, and may be there still
--   pause, last               when it is to be seen, or 0, and when all have come or are out
--   first                     who came later needs a look here
--   gone                      how many have been taken out
--   more                      what is left may do for those who stand behind the first `loaded`, who have not been looked at
-- All is kept in tables: Redis takes long to make a function that refers to local variables around it, and to make a table larger.

local PATIENCE = 5000

-- As redis.pcall, where a number is the answer; or nothing.
local function number(...)
  local answer = change(...)
  return type(answer) == 'number' and answer or nil
end

-- Takes `key` away if `answer` says that it is of another type: it is nobody's then, and in the way. Whether it did.
local function cleared(key, answer)
  local wrong = type(answer) == 'table' and string.find(answer.err, 'WRONGTYPE', 1, true)
  return wrong and number('DEL', key)
end

-- How many stand in the line `key`.
local function length_of(key)
  local count = redis.pcall('ZCARD', key)
  cleared(key, count)
  return type(count) == 'number' and count or 0
end

local Line = LINE and {
  told = false, pause = 0, last = 0, first = false, gone = 0, place = 1, from = 0, loaded = 0, ended = false, broken = false,
  far = 20000, longest = 150000, longest_ever = 1000000, longest_pass = 600000000,

  note = function(line, field, value)
    local n = #line.fields
    line.fields[n + 1], line.fields[n + 2] = field, value
  end,
  see = function(line, rest) line.pause = math.max(1, line.pause > 0 and math.min(line.pause, rest) or rest) end,
  wait = function(line, rest)
    line:see(rest)
    line.last = math.max(line.last, rest)
  end,
  before = function(line, since) return (since + line.slack + line.now * line.part) / (1 + line.part) end,

  -- Of two instants that are stored: "+" when somebody who is far away may be told again, "=" when somebody may stop the line again. What
  -- is further away than `most` is a wrong one, and counts as missing.
  instant = function(line, field, most)
    local time = line.instants[field] or tonumber(redis.pcall('HGET', line.notes, field)) or 0
    line.instants[field] = time
    return time <= line.now + most and time or 0
  end,
  -- How long the others wait at the most for a client whose first caller came at `since`.
  longest_for = function(line, since)
    return not line.mine and line.now - since >= 5000000 and line.longest_ever or line.longest
  end,
  set_instant = function(line, field, time)
    line.instants[field] = time
    line:note(field, string.format('%.0f', time))
  end,

  -- The place of a client, by what is noted of it. What is too far from now is a wrong time.
  read = function(line, id, since, noted)
    local want, seen, told, patience, stops, ticket =
      string.match(type(noted) == 'string' and noted or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    if not want then want, seen, told, patience, stops, ticket = 1, 0, 0, 0, 0, 0 end
    local now, max, min = line.now, math.max, math.min
    since, seen, told, stops = max(now - 3600000000, min(now, since)), seen + 0, told + 0, stops + 0
    return {
      id = id, since = since, want = max(1, want), seen = seen <= now and seen or 0, ticket = ticket + 0,
      told = told <= now and told or 0, patience = max(PATIENCE, min(line:longest_for(since), patience)),
      stops = stops <= now + line.longest_pass and stops or 0, changed = false, gone = false,
    }
  end,
  skip = function(line, count)
    if line.loaded == 0 then line.from, line.loaded = count, count end
  end,
  -- Whether one of whom that is noted is passed anyway: what is free does not do for it, and nobody may stop the line now, or it is far
  -- away, and so is one that comes before it. Most of a long line may be so.
  passes_over = function(line, noted)
    if not (noted and line.most) then return false end
    if line.fits then
      local want = string.match(noted, '^(%d+) ')
      return want and not line.fits(want + 0, line.most)
    end
    local want, told, patience = string.match(noted, '^(%d+) %d+ (%d+) (%d+) %d+ %d+$')
    if not want then return false end
    want = want + 0
    if want > line.most then
      -- The first of those who could use what may be free soon counts.
      local first = want <= line.reach and not line.reached
      line.reached = line.reached or first
      return not first and not line:may_stop()
    end
    return line.spared and told == '0' and patience + 0 > line.far and line:rests()
  end,
  since_at = function(line, rank) return tonumber(redis.pcall('ZRANGE', line.key, rank, rank, 'WITHSCORES')[2]) or line.now end,
  -- Reads the next `count` places of the line, but for those that are passed. Who stands on a page is read when it is its turn.
  load = function(line, count)
    -- Mostly it is the first: Redis takes long to write a number down.
    local first = line.loaded == 0 and '0' or line.loaded
    if count == 1 then
      local found = redis.pcall('ZRANGE', line.key, first, first, 'WITHSCORES')
      local id = found[1]
      line.broken, line.ended = line.broken or found.err, not id
      if not id then return end
      line.loaded = line.loaded + 1
      if line.without_me and id == line.id then
        line.first_of_all = line.loaded == 1
        return
      end
      line.places[#line.places + 1] = line:read(id, tonumber(found[2]) or line.now, redis.pcall('HMGET', line.notes, id)[1])
      return
    end
    local ids = redis.pcall('ZRANGE', line.key, first, first + count - 1)
    line.broken, line.ended = line.broken or ids.err, #ids < count
    local notes = ids[1] and redis.pcall('HMGET', line.notes, unpack(ids))
    for i, id in ipairs(ids) do
      line.loaded = line.loaded + 1
      if not (line.without_me and id == line.id) and not line:passes_over(notes[i]) then
        line.places[#line.places + 1] = { unread = id, noted = notes[i], rank = line.loaded - 1 + line.gone }
      end
    end
  end,
  -- Whether nobody stands before this client, which asks.
  leads = function(line)
    if line.loaded == 0 then line:load(1) end
    return line.first_of_all
  end,
  -- The i-th place, or nothing. So many are read, and so many clients are looked at where some are taken out.
  at = function(line, i)
    local FEW, PAGE, MOST, MOST_LOOKED_AT, places = 4, 32, 256, 1000, line.places
    while true do
      while not places[i] and not line.ended and line.loaded < line.from + MOST and #places < MOST_LOOKED_AT do
        line:load(line.loaded < FEW and 1 or PAGE)
      end
      local e = places[i]
      if not (e and e.unread) then return e end
      -- Less may be free than when the page was read. Where there is `fits`, nobody asks for another place than the next.
      if not (line.fits and line:passes_over(e.noted)) then
        places[i] = line:read(e.unread, line:since_at(e.rank - line.gone), e.noted)
        return places[i]
      end
      i = i + 1
      line.place = i
    end
  end,

  -- Takes a client out of the line. What is known of those who are near, or `dead`, is of no use any more.
  leave = function(line, e, dead)
    local forget = dead or e.told == 0 and e.patience <= line.far
    e.gone, e.changed = true, not forget
    -- Those behind are where it was, unless it may not be taken out.
    local was_there = number('ZREM', line.key, e.id) or 0
    line.loaded, line.count, line.gone = line.loaded - was_there, line.count - was_there, line.gone + was_there
    if forget then change('HDEL', line.notes, e.id) end
    return 0
  end,
  -- Somebody who is far away makes others wait for so long; then for three times as long it is their turn.
  charge = function(line, time, rest) line:set_instant('+', line.now + time + 3 * rest) end,
  rests = function(line) return line.now < line:instant('+', 4 * line.longest_ever) end,

  tell = function(line, e)
    if line.writable == nil then line.writable = number('PEXPIRE', line.key, line.life) or false end
    -- Where it can't be noted who was told, all would tell each other over and over: who looks now does so again.
    if not line.writable then
      line.told = true
      line:wait(100000)
      return e.want
    end
    local word = e.id == line.id and 'own' or 'turn'
    local heard = (line.strict and redis.call or redis.pcall)(line.publish, line.key .. ':' .. e.id, word)
    -- Who may not be told so hears it in another way.
    if type(heard) == 'table' then line.unheard, heard = heard, 1 end
    local settles = line.now - e.seen < (line.settling or 0)
    if heard < 1 and not settles then return line:leave(e, true) end
    e.told, e.changed, line.told = line.now, true, true
    if e.patience > line.far then line:charge(e.patience, e.patience) end
    line:wait(e.patience)
    return e.want
  end,

  -- How much of what is left `e` takes; nothing if that does not do for it.
  part_of = function(line, e, left)
    if line.fits then return line.fits(e.want, left) end
    return e.want <= left and e.want
  end,
  limit = function(line, all)
    local e = line:at(line.place)
    if e then return not (all and e.stops == 0) and line:before(e.since) or math.huge end
    -- What has been read may end before this one's place.
    return not (line.ended or line.fits or all) and line:before(line:since_at(line.loaded)) or math.huge
  end,
  keep = function(line, left)
    local now, e = line.now, line:at(line.place)
    line.place = line.place + 1
    if e.told > 0 and now - e.told >= e.patience then return line:leave(e) end
    local fits = line:part_of(e, left)
    if not fits and not (line.stops and line:stops(e)) then return 0 end
    if e.told > 0 then
      line.kept_before = true
      line:wait(e.told + e.patience - now)
    elseif fits and e.patience > line.far and line:rests() then
      line.spared = line.spared or e
      return 0
    -- Who stops the line must have come since it began to, and must keep coming, as those see who wait.
    elseif not fits and e.seen >= e.stops and now - e.seen < line:alive(e) then
      line.kept_before = true
      line:see(e.seen + line:alive(e) - now)
    elseif line:tell(e) == 0 then
      return 0
    end
    return fits or left
  end,

  -- Writes down what has changed, and puts this client into the line if it `comes`. Whether all that stays.
  write = function(line, comes)
    local MOST_NOTES, me, key, notes, life, fields, format = 10000, line.me, line.key, line.notes, line.life, line.fields, string.format
    local added = comes and number('ZADD', key, format('%d', me.since), line.id)
    me.changed, line.places[#line.places + 1] = me.changed or comes, me
    for _, e in ipairs(line.places) do
      if e.changed then
        line:note(e.id, format('%d %d %d %d %d %d', e.want, e.seen, e.told, e.patience, e.stops, e.ticket))
      end
    end
    if #fields == 0 then return not line.broken end
    local new = (added or not comes) and not line.broken and change('HSET', notes, unpack(fields))
    if cleared(notes, new) then new = number('HSET', notes, unpack(fields)) end
    if type(new) ~= 'number' then
      if added == 1 then redis.pcall('ZREM', key, line.id) end
      return false
    end
    line.count = line.count + (added or 0)
    -- What was there before expires already; who stays puts that off four times in its life, and where that was just refused.
    local put_off = line.writable ~= false and line.now - line.now % (life * 250) <= line.asked
    if new == 0 and (not comes or added == 0 and put_off) then return true end
    local kept = number('PEXPIRE', notes, life) and number('PEXPIRE', key, life)
    -- Nothing stays that would not expire, and nothing that would be too much.
    if not kept or new > 0 and (number('HLEN', notes) or 0) > MOST_NOTES then redis.pcall('DEL', notes, key) end
    return kept
  end,

  goes_on = function(line, left, own)
    if line.fits then line.most = left end
    local e = (left > 0 or line.fits and left > -math.huge) and line:at(line.place)
    return e and not (own.stops and e.since > line.me.since) and (left > 0 or line:part_of(e, left))
  end,
  close = function(line, left, own)
    local me = line.me
    local stops = me.stops
    me.since, me.want, me.seen = own.since, own.want, line.now
    if own.ticket ~= me.ticket then me.stops, me.ticket = 0, own.ticket end
    -- Who goes is not waited for.
    line.without_me = line.asks or not own.waits
    while line:goes_on(left, own) do left = left - line:keep(left) end
    line.more = left > 0 and not line.ended and not line.places[line.place]
    -- Nobody else can use it.
    if left > 0 and line.spared then left = left - line:tell(line.spared) end
    if line.reach then
      line:at(1)
      -- Not those who have been read along with others.
      for i = 1, line.place do
        local e = line.places[i] and line:at(i)
        if e and not line.first and not e.gone
          and (e.want <= line.reach or (e.since < own.passes or e.stops > 0) and line:stops(e)) then line.first = e.since end
      end
    end
    if not own.waits then
      me.told = 0
      if line.noted ~= false or line.stood then line:leave(me) end
      if line.stops and stops > 0 and own.passes == 0 then line:stops_no_more(stops) end
    end
    local comes = line.asks and own.waits
    local kept = line:write(comes)
    -- Who stood in another line, waited when there was none, or came before this client could be counted, is to come.
    local empty = comes and line.count == 1 or own.calls and line.count == 0
    if kept and own.others and empty then redis.pcall(line.publish, line.key, 'new' .. line.id) end
    return kept and left or nil
  end,
}

local open_line = LINE and function(line)
  Line.__index = Line
  setmetatable(line, Line)
  line.places, line.fields, line.instants = {}, {}, {}
  if line.mine then line.far, line.longest = math.huge, 250000 end

  local now, asks, max, min = line.now, line.asks, math.max, math.min
  -- Where it is not known to stand nothing is noted of it that would count.
  if not line.mine then line.noted = (asks or line.stood) and redis.pcall('HGET', line.notes, line.id) end
  local me = line:read(line.id, line.since or now, line.noted)
  line.me, line.asked, line.without_me, line.stands = me, me.seen, asks, type(line.noted) == 'string'
  me.patience = max(me.patience, min(line.longest, line.mine or 0))
  -- Who comes late shows how far away it is; much later, that something held it up.
  if asks and me.told > 0 then
    local delay = now - me.told
    line.on_time = delay <= me.patience
    if me.patience > line.far then line:charge(0, delay > line.far and min(delay, me.patience) or 0) end
    local longest = line:longest_for(me.since)
    -- Once is no habit: who was near is far away when it comes late twice.
    local most = me.patience <= line.far / 2 and min(longest, line.far) or longest
    if delay <= longest then me.patience = max(PATIENCE, 0.6 * me.patience, min(most, 1.5 * delay)) end
    me.told = 0
  end
  return line
end
