INSERT INTO portfolio_work_log
    (work_log_id, version, title, minutes, tags, status, minutes_spent, follow_up_needed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (work_log_id) DO NOTHING
