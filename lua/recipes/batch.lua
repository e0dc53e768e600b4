-- Purpose: carries out the calls that the tasks of one client made on one semaphore with ids: first what is released, then
--   those who wait, in order, then those who only try
-- Counterpart: extension: the last part of the scripts, behind look.lua, and record.lua, steps.lua and line.lua of the engine; `store`,
--   from the layout's part, keeps the holders. What look.lua answers has the form of `answer`
-- KEYS[1..] keys: those of steps.lua, the object being the line of our clients, and the channel that of this client, see
--   line.lua; the store's; the lock of peers, where there is one: string; the line's notes: hash
-- ARGV[1..] those of record.lua, and behind them
--   what to do: "batch"; "tend": the same, and this client goes from the line if nobody waits; "list": a page of the
--     holders; "clear": release all
--   limit
--   how long a holder lasts without a refresh, in milliseconds, where each lasts as long as the others; else how long one
--     from now on that has no expiry
--   flags: those of setting.lua, and "p": each permit has a time of its own
--   time to live that a peer's lock without one is given, in milliseconds; "0": there is no lock
--   how long the line is kept, in milliseconds, if nobody looks
--   how many of this client wait, named here or not
--   first part of the ids of those who acquire
--   how many release; how many only try
--   from where a page of the holders is looked at: for "list" where the one before has ended, "" for the first; else the
--     slot from which on it is found out when one expires
--   for how long the others wait for this client when it has been told, in microseconds
--   the ids of those who release; with the flag "p" how long each lasts of those who try, in milliseconds; then for those
--     who wait, in order: arrival in microseconds ("0": now), how many, how long each lasts
-- Returns: for "list": where the page ends ("-": it is the last), then id, milliseconds left (-1: for ever), slot (0: none)
--   for each holder; else
--   "<now> <ms until one of the page expires, or -1> <how many clients stand before this one> <how many stand in line>
--   <microseconds after which to look whether those who have been told come, or 0> <1: look again at once>
--   <the lock that is in the way: ms it lasts, a colon, and its holder's mark> <granted to those who wait> <granted to
--   those who try> <cleared> <1 or 0 for each release> <slots of those granted, by commas> <why nothing could be
--   granted>", "-" for what is empty, "=" and hexadecimal digits for a text that is no word; "unreadable units <score>"
--   for a time in other units
-- Publishes: nothing
-- Repeat-safe: yes, by steps.lua
-- Invariant: permits go to those of our clients who wait in the order of their arrival; none is granted while a
--   peer holds the lock; after a refusal nothing has changed

-- Those who have become holders; what is answered where nobody has. What is asked for, and what has become of it: in a table, as
-- functions that refer to many local variables take long to make.
local holders, without_holders
local setting, batch

-- A text as one word of the answer.
local function word(text)
  if text ~= '' and not string.find(text, '[^%w:_.-]') then return text end
  return '=' .. string.gsub(text, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
end

-- Whether a peer holds the lock that acquisitions are made under: for how long, and a mark of who it is.
local function peer_s_lock()
  local key = KEYS[#KEYS - 1]
  local left = redis.call('PTTL', key)
  if left == -2 then return end
  -- A lock without an expiry is one whose holder is about to set it, or has died before he could.
  if left == -1 then
    redis.call('PEXPIRE', key, ARGV[9])
    left = ARGV[9]
  end
  local holder = redis.pcall('GET', key)
  return string.format('%.0f:', left) .. (type(holder) == 'string' and string.sub(redis.sha1hex(holder), 1, 8) or '')
end

-- Others' limits may be other ones: what is left is left under this client's.
local function fits(other_s_limit, left)
  return left + other_s_limit - setting.limit >= 1 and 1
end

local function stand_in_line()
  batch.line = open_line({
    key = OBJECT, notes = KEYS[#KEYS], publish = ARGV[1], id = batch.id, now = setting.now, asks = batch.named > 0, count = batch.size,
    life = ARGV[10], slack = 0, part = 0, mine = ARGV[16] + 0, fits = fits, settling = 1000000, strict = true,
  })
end

local function take_back()
  if ARGV[5] == 'clear' then batch.cleared = store.clear(setting) end
  batch.freed = batch.cleared
  if batch.releases == 0 then return end
  local dropped, seen = store.drop(setting, { unpack(ARGV, batch.first_id, batch.first_time - 1) }), {}
  for i = 1, batch.releases do
    -- Who is released twice in one batch held once.
    local id = ARGV[batch.first_id + i - 1]
    dropped[i] = dropped[i] and not seen[id]
    seen[id] = true
    batch.freed = batch.freed + (dropped[i] and 1 or 0)
  end
  batch.dropped = dropped
end

-- What those are due to who came before `instant` is kept for them.
local function keep_for_those_before(instant)
  local line = batch.line
  while line and batch.left > 0 do
    line.most = batch.left
    if instant <= line:limit() then return end
    batch.left = batch.left - line:keep(batch.left)
  end
end

-- How many of those who wait are served, and when the first came who is not. Under a peer's lock nobody is.
local function serve()
  local lock = batch.lock
  for i = batch.first_run, #ARGV, 3 do
    local came, count = ARGV[i] + 0, ARGV[i + 1] + 0
    if came == 0 then came = setting.now end
    if not lock then keep_for_those_before(came) end
    local some = lock and 0 or math.max(0, math.min(count, batch.left))
    batch.served, batch.left = batch.served + some, batch.left - some
    if some < count then return came end
  end
end

-- For how long those hold who are granted a permit: first those served, then those who try.
local function times_of()
  local list = {}
  for i = batch.first_run, #ARGV, 3 do
    for _ = 1, math.min(ARGV[i + 1] + 0, batch.served - #list) do list[#list + 1] = ARGV[i + 2] end
  end
  for i = 1, batch.tried do list[#list + 1] = ARGV[batch.first_time + i - 1] end
  return list
end

-- Finds out who is granted a permit, and makes holders of them: the slots they get; or nothing, and why not.
local function take()
  batch.left = store.room(setting, setting.limit)
  batch.arrival = serve()
  if batch.tries > 0 and not batch.lock then
    -- What those who wait are due to is not for those who only try.
    local own = batch.waiting - batch.served
    batch.left = batch.left - own
    keep_for_those_before(math.huge)
    batch.tried = math.max(0, math.min(batch.tries, batch.left))
    batch.left = batch.left - batch.tried + own
  end
  batch.granted = batch.served + batch.tried
  if batch.granted == 0 then return end
  holders = new_ids(ARGV[12], batch.granted)
  return store.take(setting, holders, batch.own_times and times_of())
end

local function grant()
  local done, outcome, reason = pcall(take)
  if done and not reason then
    batch.slots = outcome
    return
  end
  -- What others have asked for is done all the same; where nobody has, the server's error is the answer.
  if not done and batch.releases + batch.cleared == 0 then error(outcome, 0) end
  if holders then pcall(store.drop, setting, holders) end
  batch.failure = reason or type(outcome) == 'table' and outcome.err or outcome
  batch.left = (batch.left or 0) + batch.granted
  holders, batch.served, batch.tried, batch.granted = nil, 0, 0, 0
end

-- What has been given back is so, whatever the server forbids behind that.
local function try(step, ...)
  local done, result = pcall(step, ...)
  if not done and batch.freed == 0 then error(result, 0) end
  return done and result
end

-- Lets the others know, and keeps this client's place as long as one `waits`.
local function leave_line(waits)
  local left, goes = batch.left, ARGV[5] == 'tend' and batch.waiting == 0
  -- Where nothing has come free nobody is told who was not told before. Under a peer's lock a permit that is free is no
  -- reason to come; the place of the first is one, who looks for the lock.
  if batch.freed == 0 and (batch.lock or left <= 0) then left = -math.huge end
  if (setting.locked or setting.repair) and (batch.served > 0 or goes) then left = math.max(left, 1) end
  -- Without a question or an end it stands where it stood.
  local stays = waits or batch.named == 0 and not goes
  try(batch.line.close, batch.line, left, {
    waits = stays, since = batch.arrival or setting.now, want = setting.limit, ticket = 0,
  })
  -- No script is to last long: another one goes on at once where some have been taken out.
  if batch.line.more and batch.line.gone > 0 then batch.line:see(1) end
end

local function bits(list, count)
  local text = {}
  for i = 1, count do text[i] = list[i] and '1' or '0' end
  return count > 0 and table.concat(text) or '-'
end

local function answer()
  return table.concat({
    string.format('%d', setting.now), string.format('%.0f', batch.first_end), batch.rank,
    batch.waits and math.max(batch.size, batch.rank + 1) or 0, string.format('%d', batch.line and batch.line.pause or 0),
    batch.more and 1 or 0, batch.lock or '-', batch.served, batch.tried, batch.cleared, bits(batch.dropped, batch.releases),
    batch.slots and table.concat(batch.slots, ',') or '-', word(batch.failure),
  }, ' ')
end

local function work()
  setting = setting_of(ARGV[6], ARGV[7], ARGV[8])
  setting.locked = ARGV[9] ~= '0'
  local refusal, more = store.open(setting)
  if refusal then return nil, refusal end
  if ARGV[5] == 'list' then
    local page = store.list(setting, ARGV[15])
    if page[1] == '' then page[1] = '-' end
    for i = 1, #page do page[i] = word(page[i]) end
    return table.concat(page, ' ')
  end

  local releases, tries, own_times = ARGV[13] + 0, ARGV[14] + 0, string.find(ARGV[8], 'p', 1, true)
  batch = {
    waiting = ARGV[11] + 0, releases = releases, tries = tries, own_times = own_times, first_id = 17, first_time = 17 + releases,
    first_run = 17 + releases + (own_times and tries or 0), named = 0, id = string.sub(CHANNEL, #OBJECT + 2), size = 0,
    cleared = 0, freed = 0, served = 0, tried = 0, granted = 0, failure = '-', rank = 0, first_end = -1, more = more,
  }
  for i = batch.first_run, #ARGV, 3 do batch.named = batch.named + ARGV[i + 1] end
  local asking = batch.named + tries
  -- As in the originals, those who hold need no lock.
  batch.lock = setting.locked and batch.waiting + tries > 0 and peer_s_lock()
  -- Where nobody waits there is no line.
  batch.size = length_of(OBJECT)
  if batch.size > 0 then stand_in_line() end

  -- Where there is room for all beforehand, they come before the others go: nobody can tell, and a zset that is
  -- never empty is not made anew each time.
  if releases > 0 and asking > 0 and not batch.line and not batch.lock and store.room(setting, setting.limit) >= asking then
    -- Those who come could not be taken out again, either.
    store.may_drop(setting)
    grant()
  end
  take_back()
  if batch.granted == 0 and asking > 0 then
    batch.failure = '-'
    grant()
  elseif batch.line then
    batch.left = try(store.room, setting, setting.limit) or 0
  end

  -- Who was served has not named all who wait: the others come again.
  batch.waits = batch.waiting > batch.served and batch.arrival
  if batch.waits and not batch.line then stand_in_line() end
  if batch.line then leave_line(batch.waits) end
  local rank = batch.waits and redis.pcall('ZRANK', OBJECT, batch.id)
  batch.rank = type(rank) == 'number' and rank or 0
  try(store.settle, setting, batch.freed, batch.granted)

  if batch.waiting > batch.served then
    batch.first_end = try(store.first_end, setting, ARGV[15]) or -1
    -- Who waits for a string lock is told who holds it.
    if setting.repair then batch.lock = try(store.holder) end
  end
  if batch.freed > 0 then
    without_holders = function(refusal)
      batch.served, batch.tried, batch.slots, batch.failure = 0, 0, nil, refusal
      return answer()
    end
  end
  return answer(), batch.granted + batch.freed + releases > 0
end

return carry_out_steps(work, function(refusal)
  if not holders then return end
  -- Nobody holds what nobody is told of.
  pcall(store.drop, setting, holders)
  return without_holders and without_holders(refusal) or 'refused'
end)
