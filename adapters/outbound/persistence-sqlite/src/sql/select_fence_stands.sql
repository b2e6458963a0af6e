-- Whether a fence stands.
SELECT EXISTS (SELECT 1 FROM outbox_claim_fence AS fence WHERE fence.kind = ?1 AND fence.subject = ?2)
