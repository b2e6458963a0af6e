-- Lifts a fence.
DELETE FROM outbox_claim_fence WHERE kind = ?1 AND subject = ?2
