-- Purpose: lets who wants more than is free stop the line for a while, or it would be passed for ever; src/engine/turns has the rule
--   and its reasons
-- Counterpart: extension: the part behind engine/line.lua, and before turns.lua
-- Returns: nothing by itself; where there is a `LINE`, it adds to `Line` what is told below
-- Publishes: nothing
-- Repeat-safe: yes, where its caller is
-- Invariant: one stops the line at a time, and nobody for good

-- `e` is a place in the line: `stops`, since when it stops the line, or from when on, or 0.
--   may_stop()                whether somebody may stop the line now
--   stops(e)                  whether `e`, which can't use what is free, stops the line now; between times it is passed
--   is_behind(since)          whether the next in line came before that, be it by a moment
--   stops_at(since, ticket)   whether the first of those who ask stops the line, as what is free does not do for it
--   alive(e)                  for how long who stops it is believed to be there
--   stops_no_more(begins)     who has stopped it since then, or was to do so then, leaves in vain
if LINE then
  Line.longest_stop = 60000000
  -- Several take no turns in it, or the line would always stand still.
  Line.may_stop = function(line) return line.from == 0 and line:instant('=', line.longest_stop) <= line.now end
  Line.stops = function(line, e)
    local PASSING, PASS, most, now, max, min = 5000000, 20000, line.longest_stop, line.now, math.max, math.min
    if not line:may_stop() then return false end
    local begins = max(e.stops == 0 and now or e.stops, line:instant('=', most))
    if begins ~= e.stops then e.stops, e.changed = begins, true end
    if now < e.stops then return false end
    local waited = min(most, e.stops - e.since)
    local long = waited >= PASSING
    local rest = e.stops + (long and PASSING + waited / 4 or max(PATIENCE, waited / 16)) - now
    if rest > 0 then line:see(rest) return true end
    e.stops, e.changed = now + (long and min(line.longest_pass, now - e.since) or max(PASS, (now - e.since) / 4)), true
    line:set_instant('=', min(now + most, e.stops))
    return false
  end
  Line.is_behind = function(line, since)
    local e = line:at(line.place)
    return e and e.since < since
  end
  Line.stops_at = function(line, since, ticket)
    local me = line.me
    if me.ticket ~= ticket then me.ticket, me.stops = ticket, 0 end
    me.since = since
    if line:stops(me) then line.told = true return true end
  end
  -- An eighth of what that has cost by then.
  Line.alive = function(_, e) return math.max(20000, math.min(250000, (e.seen - e.stops) / 7)) end
  -- The others pass as long as they would have if that had ended now, and not for its sake when it has ended before.
  Line.stops_no_more = function(line, begins)
    local SOON, most, now = 5000000, line.longest_stop, line.now
    local again = line:instant('=', most)
    if begins <= now then
      line:set_instant('=', math.max(again, now + math.min(most, 4 * (now - begins))))
    elseif again > now + SOON then
      line:set_instant('=', now + SOON)
    end
  end
end
