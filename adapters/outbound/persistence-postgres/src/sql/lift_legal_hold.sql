-- Lifts a legal hold and audits it; nothing if there is none.
--
-- $1 event id, $2 operator, $3 reason code, $4 reason, $5 reference.
WITH lifted AS (
    DELETE FROM outbox_legal_hold AS held
     WHERE held.event_id = $1::text
    RETURNING held.event_id
)
INSERT INTO outbox_authority_audit (action, subject, operator, reason_code, reason, reference)
SELECT 'LEGAL_HOLD_LIFTED', lifted.event_id, $2::text, $3::text, $4::text, $5::text
  FROM lifted
