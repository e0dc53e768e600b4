-- Purpose: refreshes one holder, for a caller that asks for it, in any layout. It may be repeated as it is, so it waits for no batch
-- Counterpart: extension; the last part of a script, behind the layout's part
-- ARGV[1..] those of the parts before; then the id, and how many milliseconds it is to last
-- Returns: one more than its slot; 0 where it does not hold. Or "unreadable units <score>"
-- Publishes: nothing
-- Repeat-safe: yes, it only ever puts the end off, and only of what is held
-- Invariant: no other holder changes, but those that have expired

-- It needs no record.
claimed = true
local refusal = store.open()
if refusal then return refusal end
local slot = store.renew(ARGV[9], ARGV[10] + 0)
return slot and 1 + slot or 0
