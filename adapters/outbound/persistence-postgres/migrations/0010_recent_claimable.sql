-- The youngest deliveries that might go: what a relay glances at while it searches a store full of
-- scopes that cannot (requirement 004 §18.7). Neither column changes as long as a delivery is
-- claimable, so READY → CLAIMED → RETRY_WAIT still touches no index.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE INDEX outbox_delivery_recent
    ON outbox_delivery (created_at)
    WHERE claimable;
