-- Raises a fence, unless it stands or there are ?3 of them.
INSERT INTO outbox_claim_fence (kind, subject)
SELECT ?1, ?2
WHERE NOT EXISTS (
    SELECT 1 FROM outbox_claim_fence AS fence WHERE fence.kind = ?1 AND fence.subject = ?2
) AND (SELECT count(*) FROM outbox_claim_fence) < ?3
