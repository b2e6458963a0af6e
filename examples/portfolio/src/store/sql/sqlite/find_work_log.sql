SELECT version, title, minutes, tags, status, minutes_spent, follow_up_needed
FROM portfolio_work_log
WHERE work_log_id = ?1
