-- The fences that stand.
SELECT kind, subject FROM outbox_claim_fence ORDER BY kind, subject
