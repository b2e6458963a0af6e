SELECT epoch_id
  FROM outbox_publication_epoch
 WHERE state = 'ACTIVE'
   FOR UPDATE
