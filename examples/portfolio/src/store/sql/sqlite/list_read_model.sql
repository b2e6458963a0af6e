SELECT aggregate_type, aggregate_id, title, status, event_count, last_sequence
FROM portfolio_read_model
WHERE (aggregate_type, aggregate_id) > (?1, ?2)
ORDER BY aggregate_type, aggregate_id
LIMIT ?3
