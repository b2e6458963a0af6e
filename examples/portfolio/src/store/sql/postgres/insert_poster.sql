INSERT INTO portfolio_poster
    (poster_id, version, title, edition, audience, author_name, author_team, on_display_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (poster_id) DO NOTHING
