-- Purpose: whose turn it is among callers of several clients: how many of those who ask may take permits, and
--   what others must know of this client's callers; src/engine/turns has the rule and its reasons
-- Counterpart: extension: the part behind counter.lua and before batch.lua
-- KEYS[1..] keys: those of batch.lua; the third ends with this client's id; the fourth is the hash of turns, without
--   which nothing is done here: fields in the form that src/engine/turns describes
-- ARGV[1..] those of batch.lua; the last nine, where there is a hash: for how many microseconds the first in line
--   has waited, the last of those who ask now, and the last of all; how many ask; how many permits all of them
--   want; how many of the listeners are this client itself; 1: nobody may pass the first in line; how many
--   thousandths of an equal share strangers are offered; how many callers were served without Redis meanwhile
-- Returns: nothing by itself; it defines for batch.lua `listeners`, `steps_end`, `strict` and, where others listen,
--   `turn`, `due` and `leave_turn`, whose word is "turn:<pause>:<keep>:<strangers>:<clients>:<messages>:<callers>":
--   after how many microseconds those who were held back may take what is free, 0 if nobody was; how long a
--   caller must have waited by now to be served within its process (may be less than nothing); how many strangers
--   listen; how many clients with a record have callers who wait; and how many messages and how many callers with
--   permits the scripts have counted. "-": not learned. Or "turn:off": the server does not let the record be kept
-- Publishes: nothing
-- Repeat-safe: yes, batch.lua keeps a record; a batch that leaves none has changed nothing but the hash
-- Invariant: nobody gets more than there is; what the hash holds decides who comes first, and nothing else; what
--   can't be read there counts as missing

-- Nothing of it runs where nobody else listens. Times are in microseconds of the server's clock.
local turn, due, leave_turn
local listeners, steps_end = -1, #ARGV
if KEYS[4] then
  steps_end = steps_end - 9
  listeners = count_listeners()
end
local time = listeners > 0 and listeners > ARGV[steps_end + 6] + 0 and redis.pcall('TIME')
if time and not time.err then
  local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
  local SLACK, SLACK_PART = 5000, 10
  local PATIENCE, PATIENCE_STEP, MOST_STEPS = 5000, 1000, 3
  local PATIENCE_WITH_THE_SLOW, WEIGHT_OF_THE_SLOW = 10000, 1 / 8
  local SKIP, SKIP_PART = 20000, 4
  local STALE, RECORD_LIFE, LINGER, REFRESH = 10000000, '10000', 1500000, 100000
  local MOST_CREDIT, LEAST_WEIGHT, MOST_RECORDS = 8, 1 / 32, 1000
  local RECORD, RECORD_SIZE = '>I8I8I8I8I8I8', 48

  local at = steps_end
  local now = time[1] * 1000000 + time[2]
  turn = { served = 0, asked = 0, taken = 0 }
  local id = string.sub(KEYS[3], -36)
  local head, last, tail = now - ARGV[at + 1], now - ARGV[at + 2], now - ARGV[at + 3]
  local named, want = ARGV[at + 4] + 0, ARGV[at + 5] + 0
  local strangers = listeners - ARGV[at + 6]
  -- What stands in the hash; what can't be read counts as missing.
  local since, counter, credit, weight, need, skip = 0, nil, 0, 1, 1, 0
  local announced, granted = 0, 0
  local offer = ARGV[at + 8] / 1000
  -- Of other clients, those whose callers may have to be waited for; the longest wait of the rest; how many in all
  -- have callers who came before ours.
  local own, others
  local oldest, before_us = 0, 0
  local shared_text
  local clients, refused, held = 1, 0, false
  -- What is to be written to the hash.
  local fields = {}

  local function read_shared(text)
    shared_text = text
    local numbers =
      { string.match(text or '', '^(%d+) (%-?%d+) (%d+%.%d+) (%d+%.%d+) (%d+) (%d+)$') }
    for i = 1, 6 do
      numbers[i] = tonumber(numbers[i])
      if not numbers[i] or numbers[i] >= 1e15 and i > 1 then return end
    end
    since = numbers[1] <= now and numbers[1] or 0
    counter, credit = numbers[2], min(MOST_CREDIT, numbers[3])
    weight = max(LEAST_WEIGHT, min(1, numbers[4]))
    announced, granted = numbers[5], numbers[6]
  end

  -- Head, tail, want, seen, need, skip. No table, no library function that can be done without: there may be
  -- hundreds to read.
  local struct_unpack, earliest, latest = struct.unpack, now - STALE, now + STALE
  local function read_record(text)
    if not text or #text ~= RECORD_SIZE then return nil end
    local head, tail, want, seen, need, skip = struct_unpack(RECORD, text)
    if seen < earliest or seen > latest then return nil end
    return head, tail, want, seen, need, skip
  end

  local function write(field, value)
    fields[#fields + 1], fields[#fields + 2] = field, value
  end

  -- Writes what is to be written; whether the server allows it. Nothing is made that would not expire.
  local function put_down(life)
    local kept = life and redis.pcall('PEXPIRE', KEYS[4], life)
    if type(kept) == 'table' then return false end
    if type(redis.pcall('HSET', KEYS[4], unpack(fields))) == 'table' then return false end
    if kept == 0 then redis.pcall('PEXPIRE', KEYS[4], life) end
    return true
  end

  local function read_own(text)
    local head, _, want, seen, its_need, its_skip = read_record(text)
    if head then
      own = { head = head, want = want, seen = seen, need = its_need, skip = min(its_skip, latest) }
      need, skip = own.need, own.skip
    end
  end

  -- Permits that went to strangers since our last script are off their account.
  local function settle()
    if strangers > 0 and counter and counter > before then
      credit = max(0, credit - (counter - before))
      weight = min(1, weight * 2)
    end
  end

  local function look_around()
    others = {}
    -- More than this would take too long to read: it is begun anew.
    local size = redis.pcall('HLEN', KEYS[4])
    if type(size) == 'number' and size > MOST_RECORDS then redis.pcall('DEL', KEYS[4]) end
    local all = redis.pcall('HGETALL', KEYS[4])
    for i = 1, all.err and 0 or #all, 2 do
      if all[i] == '*' then
        read_shared(all[i + 1])
      elseif all[i] == id then
        read_own(all[i + 1])
      else
        local its_head, tail, wanted, seen, its_need, its_skip = read_record(all[i + 1])
        if not its_head then
          redis.pcall('HDEL', KEYS[4], all[i])
        elseif wanted > 0 then
          clients, strangers = clients + 1, strangers - 1
          if its_head < head then before_us = before_us + 1 end
          local skipped = its_skip > now
          if its_head < last and not (skipped and its_need == 0) then
            others[#others + 1] = {
              id = all[i], head = its_head, tail = tail, want = wanted, seen = seen,
              need = its_need, skip = its_skip,
            }
          elseif not skipped or its_need == 1 then
            oldest = max(oldest, now - its_head)
          end
        elseif now - seen < LINGER then
          strangers = strangers - 1
        end
      end
    end
    strangers = max(0, strangers)
    settle()
  end

  -- How many permits of `total` are kept for those callers of `other` who came before `instant`; they are taken to
  -- have come evenly. One that is skipped has come again where it needs something, and may need more than there is.
  local function wanted_before(other, instant, total)
    if other.head >= instant then return 0 end
    if other.skip > now and (other.need == 0 or other.need > total) then return 0 end
    if other.tail <= instant then return other.want end
    return ceil(other.want * (instant - other.head) / (other.tail - other.head))
  end

  -- Whether, with `total` permits free, the caller at `place` among those who ask may take `amount` of them: what
  -- remains must do for all who came before.
  local function may_take(total, amount, place)
    local came = head + (last - head) * place / max(1, named - 1)
    local instant = came - SLACK - (now - came) / SLACK_PART
    local wanted = skip > now and 0 or refused
    if strangers > 0 and offer > 0 then wanted = wanted + floor(credit) end
    for i = 1, #others do
      if wanted + amount > total then return false end
      local other = others[i]
      wanted = wanted + wanted_before(other, instant, total)
    end
    return wanted + amount <= total
  end

  -- For how long what is free is kept. Strangers that have missed several permits are offered few, but for longer: a
  -- JVM that is cold or busy takes its time to wake.
  local function patience()
    local slow = strangers > 0 and credit >= 1 and weight <= WEIGHT_OF_THE_SLOW
    return slow and PATIENCE_WITH_THE_SLOW or PATIENCE
  end

  -- Those who were waited for had their chance, and are not waited for again for a while.
  local function lose_patience()
    local function until_when(head) return now + SKIP + max(0, now - head) / SKIP_PART end
    for _, other in ipairs(others) do
      if other.head < head and (other.skip <= now or other.need > 0) then
        other.need, other.skip = 0, until_when(other.head)
        write(other.id, struct.pack(RECORD, other.head, other.tail, other.want, other.seen, 0, other.skip))
      end
    end
    if refused > 0 then skip = until_when(head) end
    if strangers > 0 and credit >= 1 then credit, weight = 0, weight / 2 end
  end

  -- How many of `count` callers may take `amount` permits each.
  due = function(total, amount, count)
    local most, result = min(count, floor(total / amount)), 0
    if most > 0 then
      if not others then look_around() end
      local high = most
      while result < high do
        local middle = ceil((result + high) / 2)
        if may_take(total - (middle - 1) * amount, amount, turn.asked + middle - 1) then
          result = middle
        else
          high = middle - 1
        end
      end
      if result < most and since > 0 and now - since >= patience() then
        lose_patience()
        result = most
      end
      held = held or result < most
    end
    if turn.asked == 0 then
      need = amount
      -- The first in line keeps what it can't use yet, as others would for it.
      if result == 0 then refused = amount end
    end
    turn.asked, turn.served = turn.asked + count, turn.served + result
    turn.taken = turn.taken + result * amount
    return result
  end

  -- Leaves this client's record, and says how the turns stand.
  leave_turn = function(total, announces)
    -- Who hands permits on must know of the others.
    if not others and ARGV[at + 9] ~= '0' then
      look_around()
    elseif not others then
      local known = redis.pcall('HMGET', KEYS[4], '*', id)
      if not known.err then
        read_shared(known[1])
        read_own(known[2])
      end
    end
    if total < 1 then
      since = 0
    elseif held and since == 0 then
      since = now
    end
    local keep, found = '-', '-'
    if others then
      for _, other in ipairs(others) do
        if other.skip <= now or other.need == 1 then oldest = max(oldest, now - other.head) end
      end
      keep, found = string.format('%.0f', (oldest - SLACK) / (1 + 1 / SLACK_PART)), strangers
      if strangers > 0 then
        credit = min(MOST_CREDIT, credit + turn.taken * weight * offer * strangers / clients)
      end
    end
    local first = refused > 0 and head or head + (last - head) * min(1, turn.served / max(1, named - 1))
    local rest = max(0, want - turn.taken)
    -- What has hardly changed need not be written again.
    if not own or now - own.seen > REFRESH or math.abs(first - own.head) > REFRESH / 100
      or own.skip ~= skip or own.need ~= need or (rest == 0) ~= (own.want == 0) then
      write(id, struct.pack(RECORD, first, max(first, tail), rest, now, need, skip))
    end
    if announces then announced = announced + 1 end
    granted = granted + turn.served + ARGV[at + 9]
    local shared = string.format('%.0f %.0f %.4f %.4f %.0f %.0f',
      since, total, credit, weight, announced, granted)
    if shared ~= shared_text then write('*', shared) end
    -- Who only releases makes no hash; who is the last to wait leaves it for as long as clients go on listening, so that
    -- none of them is taken for a stranger.
    if #fields > 0 and (want > 0 or shared_text) then
      local life
      if rest == 0 and others and clients == 1 then
        life = LINGER / 1000
      elseif not own or now - own.seen > REFRESH then
        life = RECORD_LIFE
      end
      if not put_down(life) then return ' turn:off' end
    end
    -- Of those who are held back the first ones come first, then, too.
    local pause = since + patience() + min(MOST_STEPS, before_us) * PATIENCE_STEP - now
    return string.format(' turn:%.0f:%s:%s:%s:%.0f:%.0f',
      held and max(1, pause) or 0, keep, found, clients, announced, granted)
  end
end
local strict = KEYS[4] and ARGV[steps_end + 7] == '1'
