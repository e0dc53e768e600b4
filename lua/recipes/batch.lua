-- Purpose: carries out the calls that the tasks of one client made on one semaphore with ids: first what is released, then
--   those who wait, in order, then those who only try
-- Counterpart: extension: the last part of the scripts, behind record.lua, steps.lua and line.lua of the engine; `store`, from the
--   part before, keeps the holders
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

-- Who has become a holder; what is answered where nobody has.
local holders, setting, without_holders

-- A text as one word of the answer.
local function word(text)
  if text ~= '' and not string.find(text, '[^%w:_.-]') then return text end
  return '=' .. string.gsub(text, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
end

local function work()
  local max, min, format = math.max, math.min, string.format
  local NOTES = KEYS[#KEYS]
  local what, flags, from = ARGV[5], ARGV[8], ARGV[15]
  local waiting = ARGV[11] + 0
  local releases, tries = ARGV[13] + 0, ARGV[14] + 0
  setting = setting_of(ARGV[6], ARGV[7], flags)
  setting.locked = ARGV[9] ~= '0'
  local now, limit = setting.now, setting.limit
  local own_times = string.find(flags, 'p', 1, true)
  local first_id, first_time = 17, 17 + releases
  local first_run = first_time + (own_times and tries or 0)
  local named = 0
  for i = first_run, #ARGV, 3 do named = named + ARGV[i + 1] end

  local refusal, more = store.open(setting)
  if refusal then return nil, refusal end
  if what == 'list' then
    local page = store.list(setting, from)
    if page[1] == '' then page[1] = '-' end
    for i = 1, #page do page[i] = word(page[i]) end
    return table.concat(page, ' ')
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
    return left .. ':' .. (type(holder) == 'string' and string.sub(redis.sha1hex(holder), 1, 8) or '')
  end
  -- As in the originals, those who hold need no lock.
  local lock = setting.locked and waiting + tries > 0 and peer_s_lock()

  -- Others' limits may be other ones: what is left is left under this client's.
  local function fits(other_s_limit, left)
    return left + other_s_limit - limit >= 1 and 1
  end
  -- Where nobody waits there is no line. A key of another type is left alone: nobody is known to stand there.
  local id, size, line = string.sub(CHANNEL, #OBJECT + 2), redis.pcall('ZCARD', OBJECT), nil
  size = type(size) == 'number' and size or 0
  local function open()
    line = open_line({
      key = OBJECT, notes = NOTES, publish = ARGV[1], id = id, now = now, asks = named > 0, count = size, life = ARGV[10],
      slack = 0, part = 0, mine = ARGV[16] + 0, fits = fits, settling = 1000000, strict = true,
    })
  end
  if size > 0 then open() end

  local cleared, freed, dropped = 0, 0, nil
  local served, tried, granted, arrival, slots, failure = 0, 0, 0, nil, nil, '-'
  local left

  local function take_back()
    if what == 'clear' then cleared = store.clear(setting) end
    if releases > 0 then dropped = store.drop(setting, { unpack(ARGV, first_id, first_time - 1) }) end
    freed = cleared
    local seen = {}
    for i = 1, releases do
      -- Who is released twice in one batch held once.
      local id = ARGV[first_id + i - 1]
      dropped[i] = dropped[i] and not seen[id]
      seen[id] = true
      freed = freed + (dropped[i] and 1 or 0)
    end
  end

  -- What those are due to who came before `instant` is kept for them.
  local function keep_for_those_before(instant)
    while line and left > 0 and instant > line:limit() do left = left - line:keep(left) end
  end

  -- How many of those who wait are served, and when the first came who is not. Under a peer's lock nobody is.
  local function serve()
    for i = first_run, #ARGV, 3 do
      local came, count = ARGV[i] + 0, ARGV[i + 1] + 0
      if came == 0 then came = now end
      if not lock then keep_for_those_before(came) end
      local some = lock and 0 or max(0, min(count, left))
      served, left = served + some, left - some
      if some < count then return came end
    end
  end

  -- For how long those hold who are granted a permit: first those served, then those who try.
  local function times_of()
    local list = {}
    for i = first_run, #ARGV, 3 do
      for _ = 1, min(ARGV[i + 1] + 0, served - #list) do list[#list + 1] = ARGV[i + 2] end
    end
    for i = 1, tried do list[#list + 1] = ARGV[first_time + i - 1] end
    return list
  end

  -- Finds out who is granted a permit, and makes holders of them: the slots they get; or nothing, and why not.
  local function take()
    left = store.room(setting, limit)
    arrival = serve()
    if tries > 0 and not lock then
      -- What those who wait are due to is not for those who only try.
      local own = waiting - served
      left = left - own
      keep_for_those_before(math.huge)
      tried = max(0, min(tries, left))
      left = left - tried + own
    end
    granted = served + tried
    if granted == 0 then return end
    holders = new_ids(ARGV[12], granted)
    return store.take(setting, holders, own_times and times_of())
  end

  local function grant()
    local done, outcome, reason = pcall(take)
    if done and not reason then
      slots = outcome
      return
    end
    -- What others have asked for is done all the same; where nobody has, the server's error is the answer.
    if not done and releases + cleared == 0 then error(outcome, 0) end
    if holders then pcall(store.drop, setting, holders) end
    failure = reason or type(outcome) == 'table' and outcome.err or outcome
    left = (left or 0) + granted
    holders, served, tried, granted = nil, 0, 0, 0
  end

  -- What has been given back is so, whatever the server forbids behind that.
  local function try(step, ...)
    local done, result = pcall(step, ...)
    if not done and freed == 0 then error(result, 0) end
    return done and result
  end

  -- Where there is room for all beforehand, they come before the others go: nobody can tell, and a zset that is
  -- never empty is not made anew each time.
  if releases > 0 and named + tries > 0 and not line and not lock and store.room(setting, limit) >= named + tries then
    grant()
  end
  take_back()
  if granted == 0 and named + tries > 0 then
    failure = '-'
    grant()
  elseif line then
    left = try(store.room, setting, limit) or 0
  end

  -- Who was served has not named all who wait: the others come again.
  local waits = waiting > served and arrival
  if waits and not line then open() end
  if line then
    -- Where nothing has come free nobody is told who was not told before. Under a peer's lock a permit that is free is no
    -- reason to come; the place of the first is one, who looks for the lock.
    if freed == 0 and (lock or left <= 0) then left = -math.huge end
    local goes = what == 'tend' and waiting == 0
    if (setting.locked or setting.repair) and (served > 0 or goes) then left = max(left, 1) end
    -- Without a question or an end it stands where it stood.
    local stays = waits or named == 0 and not goes
    try(line.close, line, left, { waits = stays, since = arrival or now, want = limit, ticket = 0 })
  end
  local rank = waits and redis.pcall('ZRANK', OBJECT, id)
  rank = type(rank) == 'number' and rank or 0
  try(store.settle, setting, freed, granted)

  local first_end = -1
  if waiting > served then first_end = try(store.first_end, setting, from) or -1 end
  -- Who waits for a string lock is told who holds it.
  if setting.repair and waiting > served then lock = try(store.holder) end

  local function bits(list, count)
    local text = {}
    for i = 1, count do text[i] = list[i] and '1' or '0' end
    return count > 0 and table.concat(text) or '-'
  end
  local function answer()
    return table.concat({
      format('%d', now), format('%.0f', first_end), rank, waits and max(size, rank + 1) or 0,
      format('%d', line and line.pause or 0), more and 1 or 0, lock or '-', served, tried, cleared,
      bits(dropped, releases), slots and table.concat(slots, ',') or '-', word(failure),
    }, ' ')
  end
  if freed > 0 then
    without_holders = function(refusal)
      served, tried, slots, failure = 0, 0, nil, refusal
      return answer()
    end
  end
  return answer(), granted + freed + releases > 0
end

return carry_out_steps(work, function(refusal)
  if not holders then return end
  -- Nobody holds what nobody is told of.
  pcall(store.drop, setting, holders)
  return without_holders and without_holders(refusal) or 'refused'
end)
