-- Places a legal hold and audits it; nothing if there is one.
--
-- $1 event id, $2 operator, $3 reason code, $4 reason, $5 reference.
WITH placed AS (
    INSERT INTO outbox_legal_hold (event_id, placed_by, reason_code, reason, reference)
    VALUES ($1::text, $2::text, $3::text, $4::text, $5::text)
    ON CONFLICT (event_id) DO NOTHING
    RETURNING event_id
)
INSERT INTO outbox_authority_audit (action, subject, operator, reason_code, reason, reference)
SELECT 'LEGAL_HOLD_PLACED', placed.event_id, $2::text, $3::text, $4::text, $5::text
  FROM placed
