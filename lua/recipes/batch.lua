-- Purpose: carries out, once, the calls that the tasks of one client made on one semaphore with ids: first
--   what is released, then what is refreshed, then those who wait, in order, then those who only try
-- Counterpart: extension: the last part of the scripts, behind record.lua; `store`, from the part before, keeps
--   the holders
-- KEYS[1..] keys: the store's; then, counted from the end: channel: where our waiters listen; line: hash,
--   who of our clients waits, "<arrival of his first> <good until> <how many>" in microseconds; record:
--   string, "<sequence number> <answer>"; lock: string, the lock of peers, where there is one
-- ARGV[1] publish command: PUBLISH or SPUBLISH
-- ARGV[2] sequence number of this batch, rising within a client
-- ARGV[3] time to live of the record in milliseconds
-- ARGV[4] "1": put the batch on record even if it changes nothing (an earlier copy may still arrive); "2": the
--   same, and a later number that stands there now is not by this client; else "0"
-- ARGV[5] what to do: "batch"; "list": a page of the holders; "clear": release all
-- ARGV[6] limit
-- ARGV[7] how long a holder lasts without a refresh, in milliseconds
-- ARGV[8] flags: "s" times are in seconds, "t" the store has tokens, "r" an expiry that is missing is set
-- ARGV[9] time to live that a peer's lock without one is given, in milliseconds; "0": there is no lock
-- ARGV[10] the field of this client in the line
-- ARGV[11] how long that stays good, in milliseconds
-- ARGV[12] how many of this client wait, named here or not
-- ARGV[13] first part of the ids of those who acquire
-- ARGV[14] how many release
-- ARGV[15] how many refresh
-- ARGV[16] how many only try
-- ARGV[17] from where a page of the holders is looked at: for "list" where the one before has ended, "" for the first;
--   else the slot from which on it is found out when one expires
-- ARGV[18..] the ids of those who release; of those who refresh; then for those who wait, in order:
--   arrival in microseconds ("0": now), how many
-- Returns: for "list" an array: where the page ends ("": it is the last), then id, milliseconds left (-1: for
--   ever), slot (0: none) for each holder; else
--   "done <now> <ms until one of the page expires, or -1> <1: others who wait came before all of this client> <1: look again
--   at once> <the lock that is in the way: ms it lasts, a colon, and its holder's mark> <granted to those who wait> <granted to
--   those who try> <cleared> <1 or 0 for each release> <the same for each refresh> <slots of those granted, by
--   commas> <why nothing could be granted>", "-" for what is empty; "units <score>" for a time in other units;
--   "stale" for a batch older than the record, and for one sent for the first time that is there already;
--   "refused <error>" for a repeated number that ended so; "unrecorded <one of these>" where it should have been put on
--   record by ARGV[4], and could not
-- Publishes: "1" where other clients of ours wait and something has changed for them: permits have been given back, or
--   the first in line has gone and permits are left, or are handed out under a peers' lock, for which the first looks
-- Repeat-safe: yes, the record answers a repeated sequence number
-- Invariant: permits go to those of our clients who wait in the order of their arrival; none is granted while a
--   peer holds the lock; after a refusal nothing has changed

local CHANNEL, LINE = KEYS[#KEYS], KEYS[#KEYS - 1]
local floor, max, min = math.floor, math.max, math.min
-- More than a day: nobody of ours says that it is still there then.
local MOST_GOOD = 1e11

local releases, refreshes, tries = tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])
local waiting, first_run = tonumber(ARGV[12]), 18 + releases + refreshes
local time = redis.call('TIME')
local named = 0
if waiting > 0 then
  for i = first_run, #ARGV, 2 do named = named + tonumber(ARGV[i + 1]) end
end
local setting = {
  now = time[1] * 1000000 + time[2],
  limit = tonumber(ARGV[6]),
  timeout = tonumber(ARGV[7]),
  seconds = string.find(ARGV[8], 's', 1, true),
  tokens = string.find(ARGV[8], 't', 1, true),
  repair = string.find(ARGV[8], 'r', 1, true),
  locked = ARGV[9] ~= '0',
  wanted = named + tries,
}

-- The line is a key of another type, which is left alone: nobody is known to stand there.
local no_line = false

-- The line as it stands: when the first of other clients' waiting callers came, and how many they are; when the
-- first of this client's came. Clients that are silent are forgotten, and it is noted whether one was.
local function look_at_line()
  local seen = { head = math.huge, others = 0, own = nil, forgotten = false }
  local line = redis.pcall('HGETALL', LINE)
  no_line = line.err and string.find(line.err, '^WRONGTYPE')
  if line.err and not no_line then error(line) end
  for i = 1, no_line and 0 or #line, 2 do
    local arrival, good_until, count = string.match(line[i + 1], '^(%d+) (%d+) (%d+)$')
    if line[i] == ARGV[10] then
      seen.own = tonumber(arrival) or 0
    elseif not count or tonumber(good_until) < setting.now or tonumber(good_until) > setting.now + MOST_GOOD then
      redis.call('HDEL', LINE, line[i])
      seen.forgotten = true
    else
      seen.head, seen.others = min(seen.head, tonumber(arrival)), seen.others + tonumber(count)
    end
  end
  return seen
end

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

-- Notes who of this client waits from now on.
local function stand_in_line(arrival, count, stood)
  if no_line then return end
  if count > 0 and arrival then
    local good_until = setting.now + ARGV[11] * 1000
    redis.call('HSET', LINE, ARGV[10], string.format('%.0f %.0f %.0f', arrival, good_until, count))
    redis.call('PEXPIRE', LINE, ARGV[11] * 10)
  elseif stood then
    redis.call('HDEL', LINE, ARGV[10])
  end
end

-- How many of those who wait may be served, and when the first of the others came.
local function serve(free, others_head)
  local served, arrival = 0, nil
  for i = first_run, #ARGV, 2 do
    local came, count = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
    if came == 0 then came = setting.now end
    local some = came <= others_head and min(count, max(0, free - served)) or 0
    served = served + some
    if some < count then return served, came end
  end
  return served, arrival
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

  local line = look_at_line()
  -- As in the originals, those who hold need no lock.
  local lock = setting.locked and waiting + tries > 0 and peer_s_lock()
  local cleared, freed, dropped, kept = 0, 0, nil, nil
  local served, tried, granted, arrival, slots, failure = 0, 0, 0, nil, nil, '-'

  local function take_back()
    if ARGV[5] == 'clear' then cleared = store.clear(setting) end
    if releases > 0 then dropped = store.drop(setting, { unpack(ARGV, 18, 17 + releases) }) end
    if refreshes > 0 then kept = store.refresh(setting, { unpack(ARGV, 18 + releases, first_run - 1) }) end
    freed = cleared
    local seen = {}
    for i = 1, releases do
      -- Who is released twice in one batch held once.
      local id = ARGV[17 + i]
      dropped[i] = dropped[i] and not seen[id]
      seen[id] = true
      freed = freed + (dropped[i] and 1 or 0)
    end
  end

  local function grant(free)
    served, arrival = serve(free, line.head)
    -- What those who wait are due to is not for those who only try.
    tried = max(0, min(tries, free - served - line.others - (waiting - served)))
    granted = served + tried
    if granted == 0 then return end
    local ids = new_ids(ARGV[13], granted)
    local done, outcome, reason = pcall(store.take, setting, ids)
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
  local function room()
    return lock and 0 or max(0, setting.limit - store.held(setting))
  end
  local free = releases > 0 and setting.wanted > 0 and room() or 0
  if free > 0 and free >= setting.wanted + line.others then grant(free) end
  take_back()
  if granted == 0 and setting.wanted > 0 then
    failure = '-'
    grant(room())
  end
  if refused then return end
  stand_in_line(arrival, waiting - served, line.own)
  store.settle(setting, freed, granted)

  -- Others are called when something has changed for them, and not because they wait: who is called looks, and what he
  -- finds must be no reason to call again.
  local behind = arrival and arrival > line.head
  local first_has_gone = line.forgotten or line.own and line.own <= line.head and (not arrival or behind)
  local left = store.held(setting) < setting.limit
  if line.others > 0 and (freed > granted or left and expired or first_has_gone and (left or setting.locked)) then
    redis.call(ARGV[1], CHANNEL, '1')
  end

  local first_end = -1
  if waiting > served then first_end = store.first_end(setting, ARGV[17]) end
  -- Who waits for a string lock is told who holds it.
  if setting.repair and waiting > served then lock = store.holder() end
  local answer = {
    'done', string.format('%.0f', setting.now), string.format('%.0f', first_end), behind and 1 or 0,
    more and 1 or 0, lock or '-', served, tried, cleared, bits(dropped, releases), bits(kept, refreshes),
    slots and table.concat(slots, ',') or '-', failure,
  }
  return table.concat(answer, ' '), granted + freed + releases + refreshes > 0
end

local done, answer, changed = pcall(work)
if refused or not done then
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
