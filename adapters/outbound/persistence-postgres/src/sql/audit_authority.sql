-- $1 action, $2 subject, $3 operator, $4 reason code, $5 reason, $6 reference, $7 approval.
INSERT INTO outbox_authority_audit
    (action, subject, operator, reason_code, reason, reference, approval)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text)
