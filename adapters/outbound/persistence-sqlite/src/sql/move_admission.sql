-- The admission's compare-and-set: ?1 and ?2 what was seen, ?3 and ?4 what comes next.
UPDATE write_admission
SET state = ?3, generation = ?4, row_version = row_version + 1
WHERE state = ?1 AND generation = ?2
