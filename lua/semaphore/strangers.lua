-- Purpose: keeps the account of strangers, who listen for permits and take no turns (JVMs): for each caller of ours that is served
--   they are owed an equal share, for which permits are kept free for a while; src/engine/turns has the rule and its reasons
-- Counterpart: extension: the part behind engine/line.lua, and before turns.lua
-- Returns: nothing by itself; where there is a `LINE`, it defines `open_account(line, strangers, clients, before, released)`: of so many of
--   them, beside so many clients, where the counter stands at `before`, and of whom this client has heard so many messages. An account
--   has `kept`, so many permits are free for them; `overdrawn`: they have had too much; `contested`: and go on. `close_account(line,
--   account, total, grants)` writes it down, where `total` permits are left and so many callers of ours were served. It stands in the
--   notes' field "*": the counter behind the last script, how many permits they are owed, how much of an equal share that is, since
--   when some are kept for them, how many they have not released, and for how long some are kept
-- Publishes: nothing
-- Repeat-safe: yes, where its caller is
-- Invariant: what can't be read counts as missing

local MOST_OWED = 8

local open_account = LINE and function(line, strangers, clients, before, released)
  local LEAST_WEIGHT, MOST_PATIENCE, max, min, now = 1 / 32, 40000, math.max, math.min, line.now
  local stored = redis.pcall('HGET', line.notes, '*')
  local counter, owed, weight, since, unreleased, patience = string.match(type(stored) == 'string' and stored or '',
    '^(%-?%d+) (%-?%d+%.?%d*) (%d+%.?%d*) (%d+) (%-?%d+%.?%d*) (%d+)$')
  counter, since, patience = (counter or before) + 0, min(now, since or 0), max(PATIENCE, min(MOST_PATIENCE, patience or 0))
  owed, unreleased = max(-MOST_OWED, min(MOST_OWED, owed or 0)), max(-MOST_OWED, min(MOST_OWED, unreleased or 0))
  weight = max(LEAST_WEIGHT * PATIENCE / patience * min(1, clients / strangers), min(1, weight or 1))

  -- What they have taken since the last script: as many as they have released or the counter has fallen by, whichever is more in the
  -- long run.
  local fallen = max(0, counter - before)
  local more = unreleased + fallen - released / clients
  local took = released / clients + max(0, more) - max(0, unreleased)
  if fallen + took > 0 then
    if since > 0 then patience = max(PATIENCE, 0.6 * patience, min(patience, 1.5 * (now - since))) end
    weight, since = min(1, weight * 2), 0
  elseif since > 0 and now - since >= patience and owed > 0 then
    owed, weight, since, patience = 0, weight / 2, 0, min(MOST_PATIENCE, patience * 2)
  end
  owed = max(-MOST_OWED, owed - took)
  local overdrawn = owed < 1 - MOST_OWED
  return {
    owed = owed, weight = weight, since = since, unreleased = more, patience = patience, ratio = strangers / clients,
    kept = max(0, math.floor(owed)), overdrawn = overdrawn, contested = overdrawn and took > 0,
  }
end

local close_account = LINE and function(line, account, total, grants)
  local CROWD = 16
  local keeps = account.owed >= 1 and total > 0
  if keeps and account.since == 0 then
    account.since, line.told = line.now, true
  elseif not keeps then
    account.since = 0
  end
  if keeps then line:wait(account.since + account.patience - line.now) end
  local share = math.max(account.ratio, account.overdrawn and 1 / CROWD or 0)
  account.owed = math.min(MOST_OWED, account.owed + grants * account.weight * share)
  line:note('*', string.format('%.0f %.4f %.6f %.0f %.4f %.0f', total, account.owed, account.weight, account.since,
    account.unreleased, account.patience))
end
