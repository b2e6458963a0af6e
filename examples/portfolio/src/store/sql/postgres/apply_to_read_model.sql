-- Each part is taken from the event that comes last in the aggregate's order and carries it, so
-- the result does not depend on the order of arrival.
INSERT INTO portfolio_read_model
    (aggregate_type, aggregate_id, title, title_sequence, status, event_count, last_sequence)
VALUES ($1, $2, $3, CASE WHEN $3::text IS NULL THEN 0 ELSE $5::bigint END, $4, 1, $5)
ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET
    title = CASE WHEN excluded.title_sequence > portfolio_read_model.title_sequence
                 THEN excluded.title ELSE portfolio_read_model.title END,
    title_sequence = GREATEST(excluded.title_sequence, portfolio_read_model.title_sequence),
    status = CASE WHEN excluded.last_sequence > portfolio_read_model.last_sequence
                  THEN excluded.status ELSE portfolio_read_model.status END,
    event_count = portfolio_read_model.event_count + 1,
    last_sequence = GREATEST(excluded.last_sequence, portfolio_read_model.last_sequence)
