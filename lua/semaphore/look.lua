-- Purpose: looks after those who were told that it is their turn, where nothing has changed since for who looks: where no permits
--   are free there is nothing to be seen to
-- Counterpart: extension; batch.lua does the same, and all else, as its step `available`
-- KEYS[1] semaphore: string, the permits available as a decimal integer
-- Returns: "done idle" where none are free; "no" for any other case, in an array as nothing has changed
-- Publishes: nothing
-- Repeat-safe: yes, nothing is stored
-- Invariant: no key is changed

return { redis.pcall('GET', KEYS[1]) == '0' and 'done idle' or 'no' }
