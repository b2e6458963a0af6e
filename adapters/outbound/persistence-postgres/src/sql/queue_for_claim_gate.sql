-- Every Tx B holds the gate's row FOR SHARE, and with it the table in a mode that this one conflicts
-- with; the queue for a table is fair, so that this wait ends with the claims under way now.
LOCK TABLE outbox_claim_gate IN EXCLUSIVE MODE
