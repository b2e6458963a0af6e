-- Who changed what about the authority, and why.
INSERT INTO outbox_authority_audit (
    action, subject, operator, reason_code, reason, reference, approval, recorded_at
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, clock.now FROM database_clock AS clock
