-- Purpose: looks after those who were told that it is their turn, where who looks has nothing to say: where no permits are free there
--   is nothing to be seen to. A replica answers, too; whoever asks for more notices that
-- Counterpart: extension; the turns' part of batch.lua does all else
-- KEYS[1] semaphore: string, the permits available as a decimal integer
-- Returns: "done idle" where none are free; "no" for any other case, in an array as nothing has changed
-- Publishes: nothing
-- Repeat-safe: yes, nothing is stored
-- Invariant: no key is changed

return { redis.pcall('GET', KEYS[1]) == '0' and 'done idle' or 'no' }
