-- Fails with 25P02 in a transaction that an earlier, swallowed error aborted.
SELECT 1
