SELECT COUNT(*),
       COALESCE(SUM(event_count), 0)::bigint,
       COUNT(*) FILTER (WHERE aggregate_type = 'worklog'),
       COUNT(*) FILTER (WHERE aggregate_type = 'poster')
FROM portfolio_read_model
