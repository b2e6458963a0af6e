-- Holds the ACTIVE polling epoch until the transaction ends; no row if there is none.
SELECT epoch_id
  FROM outbox_publication_epoch
 WHERE state = 'ACTIVE'
   AND authority = 'POLLING_V2'
   FOR SHARE
