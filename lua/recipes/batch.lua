-- Purpose: carries out, once, the calls that the tasks of one client made on one semaphore with ids: first
--   what is released, then what is refreshed, then those who wait, in order, then those who only try
-- Counterpart: extension: the last part of the scripts, behind record.lua; `store`, from the part before, keeps
--   the holders, and `open_line`, from line.lua, those who wait
-- KEYS[1..] keys: the store's; then, counted from the end: notes and line: see line.lua; record: string, "<sequence
--   number> <answer>"; lock: string, the lock of peers, where there is one
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] sequence number of this batch, rising within a client
-- ARGV[3] time to live of the record in milliseconds
-- ARGV[4] "1": put the batch on record even if it changes nothing (an earlier copy may still arrive); "2": the
--   same, and a later number that stands there now is not by this client; else "0"
-- ARGV[5] what to do: "batch"; "tend": no call, those are seen to who have been told and do not come;
--   "list": a page of the holders; "clear": release all
-- ARGV[6] limit
-- ARGV[7] how long a holder lasts without a refresh, in milliseconds, where each lasts as long as the others; else how
--   long one from now on that has no expiry
-- ARGV[8] flags: "s" times are in seconds, "t" the store has tokens, "r" an expiry that is missing is set, "p" each
--   permit has a time of its own
-- ARGV[9] time to live that a peer's lock without one is given, in milliseconds; "0": there is no lock
-- ARGV[10] the field of this client in the line
-- ARGV[11] how long the line is kept, in milliseconds, if nobody looks
-- ARGV[12] how many of this client wait, named here or not
-- ARGV[13] first part of the ids of those who acquire
-- ARGV[14] how many release
-- ARGV[15] how many refresh
-- ARGV[16] how many only try
-- ARGV[17] from where a page of the holders is looked at: for "list" where the one before has ended, "" for the first;
--   else the slot from which on it is found out when one expires
-- ARGV[18] for how long the others wait for this client when it has been told, in microseconds
-- ARGV[19] "1": it listens; else "0"
-- ARGV[20..] the ids of those who release; of those who refresh; with the flag "p" how long each lasts of those who
--   refresh, and of those who try, in milliseconds; then for those who wait, in order: arrival in microseconds ("0": now),
--   how many, how long each lasts
-- Returns: for "list" an array: where the page ends ("": it is the last), then id, milliseconds left (-1: for
--   ever), slot (0: none) for each holder; else
--   "done <now> <ms until one of the page expires, or -1> <how many clients stand before this one> <how many stand in line>
--   <microseconds after which to look whether those who have been told come, or -1> <1: look again at once>
--   <the lock that is in the way: ms it lasts, a colon, and its holder's mark> <granted to those who wait> <granted to
--   those who try> <cleared> <1 or 0 for each release> <the same for each refresh> <slots of those granted, by
--   commas> <why nothing could be granted>", "-" for what is empty; "units <score>" for a time in other units;
--   "stale" for a batch older than the record, and for one sent for the first time that is there already;
--   "refused <error>" for a repeated number that ended so; "unrecorded <one of these>" where it should have been put on
--   record by ARGV[4], and could not
-- Publishes: nothing
-- Repeat-safe: yes, the record answers a repeated sequence number
-- Invariant: permits go to those of our clients who wait in the order of their arrival; none is granted while a
--   peer holds the lock; after a refusal nothing has changed

local max, min = math.max, math.min

local releases, refreshes, tries = tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])
local waiting = tonumber(ARGV[12])
local time = redis.call('TIME')
local setting = {
  now = time[1] * 1000000 + time[2],
  limit = tonumber(ARGV[6]),
  timeout = tonumber(ARGV[7]),
  seconds = string.find(ARGV[8], 's', 1, true),
  tokens = string.find(ARGV[8], 't', 1, true),
  repair = string.find(ARGV[8], 'r', 1, true),
  locked = ARGV[9] ~= '0',
}
-- Where each permit has a time of its own, the times follow the ids of those who refresh, and stand for those who try.
local own_times = string.find(ARGV[8], 'p', 1, true)
local first_id, first_time = 20, 20 + releases + refreshes
local first_run = first_time + (own_times and refreshes + tries or 0)
local named = 0
if waiting > 0 then
  for i = first_run, #ARGV, 3 do named = named + tonumber(ARGV[i + 1]) end
end
setting.wanted = named + tries

-- Whether a peer holds the lock that acquisitions are made under: for how long, and a mark of who it is.
local function peer_s_lock()
  local key = KEYS[#KEYS - 3]
  local left = redis.call('PTTL', key)
  if left == -2 then return end
  -- A lock without an expiry is one whose holder is about to set it, or has died before he could.
  if left == -1 then
    redis.call('PEXPIRE', key, ARGV[9])
    left = ARGV[9]
  end
  local holder = redis.pcall('GET', key)
  return left .. ':' .. (type(holder) == 'string' and string.sub(redis.sha1hex(holder), 1, 8) or '')
end

-- How many permits are left under a limit; found out anew when something has changed.
local rooms = {}
local function room(limit)
  rooms[limit] = rooms[limit] or max(0, store.room(setting, limit))
  return rooms[limit]
end

-- How many of those who wait are served, and when the first came who is not. Without `open` nobody is.
local function serve(line, open)
  local served = 0
  for i = first_run, #ARGV, 3 do
    local came, count = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
    if came == 0 then came = setting.now end
    local some = open and line.serve(came, count) or 0
    served = served + some
    if some < count then return served, came end
  end
  return served, nil
end

-- For how long those hold who are granted a permit: first those served, then those who try.
local function times_of(served, tried)
  local list = {}
  for i = first_run, #ARGV, 3 do
    for _ = 1, min(tonumber(ARGV[i + 1]), served - #list) do list[#list + 1] = ARGV[i + 2] end
  end
  for i = 1, tried do list[#list + 1] = ARGV[first_time + refreshes + i - 1] end
  return list
end

local function bits(list, count)
  local text = {}
  for i = 1, count do text[i] = list[i] and '1' or '0' end
  return count > 0 and table.concat(text) or '-'
end

-- An error of the server that is the answer to all; who has become a holder.
local refused, holders

-- The answer, and whether anything was changed that must not be done twice.
local function work()
  local refusal, more, expired = store.open(setting)
  if refusal then return refusal end
  if ARGV[5] == 'list' then return store.list(setting, ARGV[17]) end

  local line = open_line(ARGV[10], setting.limit, setting.now, ARGV[1], room)
  -- As in the originals, those who hold need no lock.
  local lock = setting.locked and waiting + tries > 0 and peer_s_lock()
  local cleared, freed, dropped, kept = 0, 0, nil, nil
  local served, tried, granted, arrival, slots, failure = 0, 0, 0, nil, nil, '-'

  local function take_back()
    if ARGV[5] == 'clear' then cleared = store.clear(setting) end
    if releases > 0 then dropped = store.drop(setting, { unpack(ARGV, first_id, first_id + releases - 1) }) end
    if refreshes > 0 then
      local lasting = own_times and { unpack(ARGV, first_time, first_time + refreshes - 1) }
      kept = store.refresh(setting, { unpack(ARGV, first_id + releases, first_time - 1) }, lasting)
    end
    freed, rooms = cleared, {}
    local seen = {}
    for i = 1, releases do
      -- Who is released twice in one batch held once.
      local id = ARGV[first_id + i - 1]
      dropped[i] = dropped[i] and not seen[id]
      seen[id] = true
      freed = freed + (dropped[i] and 1 or 0)
    end
  end

  local function grant()
    line.given, line.further = 0, 0
    served, arrival = serve(line, not lock)
    -- What those who wait are due to is not for those who only try.
    tried = lock and 0 or tries > 0 and min(tries, line.left(waiting - served)) or 0
    granted = served + tried
    if granted == 0 then return end
    local ids = new_ids(ARGV[13], granted)
    local done, outcome, reason = pcall(store.take, setting, ids, own_times and times_of(served, tried))
    rooms = {}
    if done and not reason then
      slots, holders = outcome, ids
      return
    end
    pcall(store.drop, setting, ids)
    failure = reason or type(outcome) == 'table' and outcome.err or outcome
    -- What others have asked for is done all the same; where nobody has, the server's error is the answer.
    if not done and releases + refreshes + cleared == 0 then refused = outcome end
    served, tried, granted = 0, 0, 0
  end

  -- Where there is room for all beforehand, they come before the others go: nobody can tell, and a zset that is
  -- never empty is not made anew each time.
  local early = releases > 0 and setting.wanted > 0 and not lock
  if early and room(setting.limit) >= setting.wanted and line.is_empty() then grant() end
  take_back()
  if granted == 0 and setting.wanted > 0 then
    failure = '-'
    grant()
  end
  if refused then return end
  -- What has been given back or kept is so, whatever the server forbids behind that.
  local function try(step, ...)
    local done, first, second = pcall(step, ...)
    if not done and freed + refreshes == 0 then error(first, 0) end
    if done then return first, second end
  end
  -- Under a peer's lock a permit that is free is no reason to come; one that has come free is.
  if not lock or freed > 0 then try(line.tell, ARGV[5] ~= 'tend') end
  local left = arrival and waiting - served or 0
  local rank, total =
    try(line.close, left, arrival, tonumber(ARGV[18]), tonumber(ARGV[19]), ARGV[11], setting.locked or setting.repair)
  try(store.settle, setting, freed, granted)

  -- Who has stood back for one who is gone looks again now.
  local again = left > 0 and line.missed and 0 or (line.told or left > 0) and line.pause or -1

  local first_end = -1
  if waiting > served then first_end = store.first_end(setting, ARGV[17]) end
  -- Who waits for a string lock is told who holds it.
  if setting.repair and waiting > served then lock = store.holder() end
  local answer = {
    'done', string.format('%.0f', setting.now), string.format('%.0f', first_end), rank or 0, total or 0,
    string.format('%.0f', again), more and 1 or 0, lock or '-', served, tried, cleared, bits(dropped, releases), bits(kept, refreshes),
    slots and table.concat(slots, ',') or '-', failure,
  }
  return table.concat(answer, ' '), granted + freed + releases + refreshes > 0
end

local done, answer, changed = pcall(work)
if refused or not done then
  -- Nobody holds what nobody is told of.
  if holders then pcall(store.drop, setting, holders) end
  answer = refused or answer
  local text = type(answer) == 'table' and answer.err or tostring(answer)
  if ARGV[4] ~= '0' then redis.call('SET', RECORD, ARGV[2] .. ' refused ' .. text, 'PX', ARGV[3]) end
  return type(answer) == 'table' and answer or redis.error_reply(text)
end
if type(answer) == 'string' and (changed or ARGV[4] ~= '0') then
  local recorded = redis.pcall('SET', RECORD, ARGV[2] .. ' ' .. answer, 'PX', ARGV[3])
  if recorded.err and holders then
    -- Nobody holds what could be granted twice.
    store.drop(setting, holders)
    return recorded
  end
  if recorded.err and ARGV[4] ~= '0' then return 'unrecorded ' .. answer end
end
return answer
