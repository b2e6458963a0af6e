-- Retires the ACTIVE epoch, if there is one.
UPDATE outbox_publication_epoch
SET state = 'RETIRED', row_version = row_version + 1
WHERE state = 'ACTIVE'
