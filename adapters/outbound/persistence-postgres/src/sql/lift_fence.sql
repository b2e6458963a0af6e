-- $1 kind, $2 subject.
UPDATE outbox_claim_gate
   SET everything = everything AND $1::text <> 'EVERYTHING',
       destinations = CASE $1::text
           WHEN 'DESTINATION' THEN array_remove(destinations, $2::text) ELSE destinations END,
       scopes = CASE $1::text
           WHEN 'ORDERING_SCOPE' THEN array_remove(scopes, $2::text) ELSE scopes END,
       events = CASE $1::text
           WHEN 'EVENT' THEN array_remove(events, $2::text) ELSE events END,
       row_version = row_version + 1
