UPDATE portfolio_poster
SET version = ?2, title = ?3, edition = ?4, audience = ?5,
    author_name = ?6, author_team = ?7, on_display_until = ?8
WHERE poster_id = ?1 AND version = ?2 - 1
