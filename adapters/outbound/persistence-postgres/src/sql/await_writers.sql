-- Waits for every writer that was admitted before the freeze was announced: they hold the row FOR
-- KEY SHARE. No row when it was reopened meanwhile.
--
-- $1 the generation that was announced.
SELECT generation
  FROM write_admission
 WHERE state = 'FREEZING'
   AND generation = $1::bigint
   FOR UPDATE
