UPDATE portfolio_work_log
SET version = $2, title = $3, minutes = $4, tags = $5,
    status = $6, minutes_spent = $7, follow_up_needed = $8
WHERE work_log_id = $1 AND version = $2 - 1
